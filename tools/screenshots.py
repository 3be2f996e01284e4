"""`make screenshots`: takes pictures of the status page during a migration on a real Kafka, into docs/images.

Desktop and phone, light and dark, the list of groups and one group. Needs Chromium (Debian's `chromium`) and, for
Kafka, Java and Maven. The pictures show a real run; nothing is made up.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tools` is not installed

from tools.kafka.cluster import RUN, Cluster
from tools.kafka.ports import LOOPBACK, free_ports

IMAGES = Path(__file__).parent.parent / "docs" / "images"
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
GROUP = "payments"
SIZES = {"desktop": (1280, 1000), "phone": (390, 844)}

_CONFIG = """\
upstream: {{bootstrap: ["{bootstrap}"]}}
listeners:
  - {{bind: {host}, port: {port}, advertised_host: {host}, nodes: {{"1-3": 0}}}}
admin: {{bind: {host}, port: {admin}}}
policy: {{file: policy.yaml}}
metrics: {{ask_brokers_every_s: 1}}
"""
_BEFORE = """\
default: observe
rules:
  - {group: orders, mode: translate}
  - {group: audit, mode: observe}
"""
_AFTER = _BEFORE + "  - {group: payments, mode: translate, switch_pause_ms: 3000}\n"


class Show:
    """Consumers behind a proxy; ``admin`` is the URL of its pages."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        port, admin = free_ports(2)
        self.admin = f"http://{LOOPBACK}:{admin}"
        self._kafka = bootstrap
        self._clients = f"{LOOPBACK}:{port}"
        self._policy = folder / "policy.yaml"
        self._policy.write_text(_BEFORE)
        config = folder / "epochgate.yaml"
        config.write_text(_CONFIG.format(bootstrap=bootstrap, host=LOOPBACK, port=port, admin=admin))
        self._log = (folder / "proxy.log").open("wb")
        self._proxy = subprocess.Popen(
            [sys.executable, "-m", "proxy", "run", "--config", str(config)], stderr=self._log
        )
        self._stopping: list[threading.Event] = []
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        """Create the topics, start the consumers of three groups, and wait until the groups have settled."""
        _until(self._ready, "the proxy is ready")
        admin = AdminClient({"bootstrap.servers": self._kafka})
        for future in admin.create_topics(
            [NewTopic("payments.events", 6, 1), NewTopic("orders.events", 4, 1)]
        ).values():
            future.result()
        for number in range(4):
            self.consume(GROUP, "payments.events", f"payments-{number}", "range")
        for number in range(2):
            self.consume("orders", "orders.events", f"orders-{number}", "cooperative-sticky")
        self.consume("audit", "orders.events", "audit-0", "range")
        _until(lambda: self._settled(GROUP, 4) and self._settled("orders", 2), "the groups have settled")

    def migrate(self) -> None:
        """Move the group by the policy file, as an operator does."""
        self._policy.write_text(_AFTER)

    def consume(self, group: str, topic: str, client_id: str, assignor: str) -> threading.Event:
        """Start a consumer; it ends when the event is set."""
        stop = threading.Event()
        settings = {
            "bootstrap.servers": self._clients,
            "group.id": group,
            "client.id": client_id,
            "partition.assignment.strategy": assignor,
            "heartbeat.interval.ms": 500,
            "session.timeout.ms": 6000,
        }

        def work() -> None:
            consumer = confluent_kafka.Consumer(settings)
            consumer.subscribe([topic])
            while not stop.is_set():
                consumer.poll(0.1)
            consumer.close()

        thread = threading.Thread(target=work)
        thread.start()
        self._stopping.append(stop)
        self._threads.append(thread)
        return stop

    def group(self, group_id: str) -> dict[str, object]:
        """Return what /api/groups reports about a group; empty if it is not known."""
        with urllib.request.urlopen(f"{self.admin}/api/groups", timeout=5) as answer:  # noqa: S310  our own URL
            found = [one for one in json.load(answer)["groups"] if one["id"] == group_id]
        return found[0] if found else {}

    def moved(self, group_id: str) -> int:
        """Return how many members of a group use the new protocol."""
        return int(self.group(group_id).get("progress", {}).get("done", 0))  # type: ignore[attr-defined]  # JSON

    def _settled(self, group_id: str, members: int) -> bool:
        group = self.group(group_id)
        return group.get("state") == "Stable" and len(group["members"]) == members  # type: ignore[arg-type]  # JSON

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.admin}/readyz", timeout=2) as answer:  # noqa: S310  our own URL
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """End consumers and proxy."""
        for stop in self._stopping:
            stop.set()
        for thread in self._threads:
            thread.join()
        self._proxy.terminate()
        self._proxy.wait(30)
        self._log.close()


def _until(reached: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it was not so within {timeout_s:g} s that {what}")
        time.sleep(0.1)


def take(browser: Browser, admin: str) -> None:
    """Take all pictures of this moment."""
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                device_scale_factor=1.5 if size == "phone" else 1,
            )
            page = context.new_page()
            for name, path in (("groups", "/"), ("group", f"/groups/{GROUP}")):
                page.goto(admin + path)
                file = IMAGES / f"{name}-{size}-{scheme}.png"
                page.screenshot(path=file, full_page=False)
                say(f"{file.relative_to(IMAGES.parent.parent)} ({file.stat().st_size // 1024} KiB)")
            context.close()


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("no chromium here: install Debian's package `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


def main() -> None:
    """Start everything, move a group, and take the pictures in the middle of it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(RUN / "screenshots", say=say)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.remove)
        stack.callback(cluster.stop, grace_s=3)
        cluster.start()
        show = Show(cluster.bootstrap, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(show.stop)
        browser = stack.enter_context(_browser())
        say("starting consumers")
        show.run()
        say("a classic rebalance, to compare with")
        extra = show.consume(GROUP, "payments.events", "payments-4", "range")
        _until(lambda: len(show.group(GROUP)["members"]) == 5, "a fifth member is there")  # type: ignore[arg-type]
        time.sleep(5)
        extra.set()
        time.sleep(4)
        say("moving the group")
        show.migrate()
        _until(lambda: show.moved(GROUP) == 4, "all are moved")
        time.sleep(4)
        say("a member joins the new protocol")
        show.consume(GROUP, "payments.events", "payments-4", "range")
        _until(lambda: show.moved(GROUP) == 5, "five are on the new protocol")
        time.sleep(3)
        take(browser, show.admin)


def say(line: str) -> None:
    """Print progress at once."""
    print(f"screenshots: {line}", flush=True)


if __name__ == "__main__":
    main()
