// Fetches the page again every two seconds and replaces what changed. Without it the page reloads itself.
"use strict";
const every = 2000;
const parts = ["main", "health", "about"];

function busy() {
  const at = document.activeElement;
  return document.hidden || (at && ["INPUT", "SELECT"].includes(at.tagName)) || String(getSelection()) !== "";
}

function where(element) { // how to find the focused link again
  return element && element.tagName === "A" ? element.getAttribute("href") : null;
}

async function refresh() {
  if (busy()) return;
  const live = document.getElementById("live");
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok && answer.status !== 404) throw new Error(answer.status); // no page: no login, or no process
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = where(document.activeElement);
    for (const id of parts) {
      const now = document.getElementById(id), next = fresh.getElementById(id);
      if (now && next && now.innerHTML !== next.innerHTML) {
        now.replaceChildren(...next.childNodes);
        now.className = next.className;
      }
    }
    if (focused) document.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    live.hidden = true;
  } catch {
    live.textContent = "the proxy does not answer; what you see is old";
    live.hidden = false;
  }
}

document.addEventListener("change", event => {
  if (event.target.tagName === "SELECT") event.target.form.requestSubmit();
});
setInterval(refresh, every);
