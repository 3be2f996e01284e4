"""The admin port and a real browser: DNS rebinding, a person with the token, and a page of another site. No Kafka."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.from_thread
from playwright.sync_api import Browser, Error, sync_playwright

from proxy.admin.access import Access
from proxy.admin.admin_http import serve_admin
from proxy.config.schema import Admin
from proxy.metrics.registry import Metrics
from tests.proxy.admin.door import TOKEN, token_file
from tests.proxy.admin.site import Site
from tests.proxy.groups.events import life
from tests.skips import program

GROUP = "secret-group"
EVIL = "evil.example"
FETCH = """async url => {
  const answer = await fetch(url, {credentials: "include"});
  return [answer.status, await answer.text()];
}"""
BLIND = """async url => {
  const image = new Image();
  const ended = new Promise(done => { image.onload = image.onerror = done; });
  image.src = url;
  await ended;
  await fetch(url, {mode: "no-cors", credentials: "include"});
  try { return await (await fetch(url, {credentials: "include"})).text(); } catch { return "unreadable"; }
}"""


@contextlib.contextmanager
def admin_port(access: Access | None = None) -> Iterator[int]:
    """The admin port of a proxy that knows one group, as `epochgate run` serves it."""
    site = Site()
    site.record(life(group=GROUP), 990)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    stop: list[Callable[[], None]] = []
    begun = threading.Event()

    async def serve() -> None:
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()
        stop.append(lambda: trio.from_thread.run_sync(done.set, trio_token=token))
        begun.set()
        await serve_admin(sock, site.app, done.wait, (), access)

    thread = threading.Thread(target=partial(trio.run, serve))
    thread.start()
    begun.wait()
    try:
        yield port
    finally:
        stop[0]()
        thread.join()


class Name:
    """What a name of a stranger leads to: first a page of theirs, later, as its DNS says then, an admin port.

    The browser knows one name and one port all the time, as with a rebound name.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.leads_to: int | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client, self.leads_to), daemon=True).start()

    @staticmethod
    def _answer(client: socket.socket, port: int | None) -> None:
        with client, contextlib.suppress(OSError):
            if port is None:
                client.recv(65536)
                page = b"<title>a page of a stranger</title>"
                head = f"content-length: {len(page)}\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n"
                client.sendall(b"HTTP/1.1 200 OK\r\n" + head.encode() + page)
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_pump, args=(server, client))
                back.start()
                _pump(client, server)
                back.join()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def _pump(from_: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := from_.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = program("chromium", "chromium")
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", rules]
        )
        yield browser
        browser.close()


@pytest.fixture
def name() -> Iterator[Name]:
    name = Name()
    yield name
    name.close()


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(Admin(token_file=str(token_file(tmp_path, TOKEN))), Metrics())


def test_a_rebound_name_reads_nothing(browser: Browser, name: Name):
    with admin_port() as port:
        page = browser.new_page()
        page.goto(f"http://{EVIL}:{name.port}/")
        assert page.title() == "a page of a stranger"
        name.leads_to = port
        for path in ("/api/groups", "/", f"/groups/{GROUP}", "/metrics", "/api/preflight"):
            status, text = page.evaluate(FETCH, path)
            assert status == 421
            assert GROUP not in text
        # The same way leads there under a name that no stranger can own.
        page.goto(f"http://localhost:{name.port}/")
        status, text = page.evaluate(FETCH, "/api/groups")
        assert status == 200
        assert GROUP in text
        page.close()


def test_a_name_that_leads_to_the_port_opens_no_page(browser: Browser):
    with admin_port() as port:
        page = browser.new_page()
        answer = page.goto(f"http://{EVIL}:{port}/")
        assert answer is not None
        assert answer.status == 421
        assert GROUP not in page.content()
        page.close()


def test_a_person_gives_the_token_as_a_password(browser: Browser, access: Access):
    with admin_port(access) as port:
        stranger = browser.new_page()
        answers: list[int] = []
        stranger.on("response", lambda one: answers.append(one.status))
        with pytest.raises(
            Error, match="ERR_INVALID_AUTH_CREDENTIALS"
        ):  # the login that the browser shows is left
            stranger.goto(f"http://127.0.0.1:{port}/")
        assert set(answers) == {401}
        stranger.close()
        context = browser.new_context(http_credentials={"username": "me", "password": TOKEN})
        errors: list[str] = []
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        with page.expect_response(lambda one: one.request.resource_type == "fetch") as again:
            page.goto(f"http://127.0.0.1:{port}/")
        assert again.value.status == 200, "the script of the page fetches it again"
        assert GROUP in page.inner_text("body")
        assert errors == []
        context.close()


def test_a_page_of_another_site_gets_nothing_by_the_browsers_credentials(
    browser: Browser, name: Name, access: Access
):
    with admin_port(access) as port:
        url = f"http://127.0.0.1:{port}"
        context = browser.new_context(http_credentials={"username": "me", "password": TOKEN})
        page = context.new_page()
        statuses: list[int] = []
        page.goto(f"{url}/")  # from here on the browser has the credentials
        page.goto(f"http://{EVIL}:{name.port}/")
        page.on("response", lambda one: statuses.append(one.status) if one.url.startswith(url) else None)
        assert page.evaluate(BLIND, f"{url}/api/groups") == "unreadable"
        assert statuses
        assert set(statuses) == {403}
        page.evaluate("url => { location = url; }", f"{url}/")
        page.wait_for_url(f"{url}/")
        assert GROUP in page.inner_text("body"), "a link leads there"
        context.close()
