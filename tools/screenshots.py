"""`python -m tools.screenshots`: takes pictures of the status page on a real Kafka, into docs/images.

During a migration, the list of groups and one group, on desktop and phone; after a Kafka Connect cluster has lost a
worker, its group on a desktop; each light and dark. `connect` or `migration` as an argument takes only those. Needs
Chromium (Debian's `chromium`) and, for Kafka, Java and Maven. The pictures show a real run; nothing is made up.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tools` is not installed

from tools.connect_worker import worker
from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster
from tools.kafka.ports import LOOPBACK, free_ports

IMAGES = Path(__file__).parent.parent / "docs" / "images"
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
GROUP = "payments"
CONNECT = "connect-cluster"
CONNECTORS = {"orders-source": 3, "payments-source": 2, "archive": 2}
VERSION = jars.DEFAULT_VERSION
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
_AFTER = _BEFORE + "  - {group: payments, mode: translate}\n"


class Show:
    """Consumers behind a proxy; ``admin`` is the URL of its pages, ``clients`` the bootstrap of its clients."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        port, admin = free_ports(2)
        self.admin = f"http://{LOOPBACK}:{admin}"
        self._kafka = bootstrap
        self.clients = f"{LOOPBACK}:{port}"
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
        self.until_ready()
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

    def until_ready(self) -> None:
        """Wait until the proxy is ready."""
        _until(self._ready, "the proxy is ready")

    def migrate(self) -> None:
        """Move the group by the policy file, as an operator does."""
        self._policy.write_text(_AFTER)

    def consume(self, group: str, topic: str, client_id: str, assignor: str) -> threading.Event:
        """Start a consumer; it ends when the event is set."""
        stop = threading.Event()
        settings = {
            "bootstrap.servers": self.clients,
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

    def workers(self, group_id: str, *, balanced: bool) -> int:
        """Return how many workers of Kafka Connect are shown; 0 if they are to be balanced and one runs nothing."""
        members: list[dict[str, object]] = self.group(group_id).get("members", [])  # type: ignore[assignment]  # JSON
        return 0 if balanced and not all(member["partitions"] for member in members) else len(members)

    def waits(self, group_id: str) -> bool:
        """Whether something waits for a lost worker."""
        return bool((self.group(group_id).get("connect") or {}).get("rejoins_at"))  # type: ignore[attr-defined]  # JSON

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


class ConnectWorkers:
    """Workers of Kafka Connect that enter at ``bootstrap``."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        worker.ensure_connectors(VERSION)

    def start(self) -> str:
        """Start one more, and return the URL of its REST API."""
        name = f"connect-{len(self._processes)}"
        (port,) = free_ports(1)
        url = f"http://{LOOPBACK}:{port}/"
        settings = self._folder / f"{name}.properties"
        told = worker.settings(self._bootstrap, CONNECT, name, url) | {
            "scheduled.rebalance.max.delay.ms": "60000"
        }
        settings.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        log = self._folder / f"{name}.log"
        command = worker.command(VERSION, settings, log, self._folder / f"{name}.jsonl")
        with (self._folder / f"{name}.out").open("wb") as out:
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=out))
        _until(lambda: self._asked(f"{url}connectors") is not None, f"{name} answers")
        return url

    def create(self, url: str, connector: str, tasks: int) -> None:
        """Create a connector that does nothing, with so many tasks."""
        config = json.dumps({"connector.class": worker.IDLE.stem, "tasks.max": str(tasks)}).encode()
        _until(
            lambda: self._asked(f"{url}connectors/{connector}/config", config) is not None,
            f"{connector} is created",
        )

    def kill_last(self) -> None:
        """kill -9."""
        self._processes[-1].kill()

    def stop(self) -> None:
        """Kill them all."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _asked(self, url: str, body: bytes | None = None) -> object:
        """What the REST API answers; None while it refuses."""
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(url, body, {"content-type": "application/json"}, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  our own URL
                return json.load(answer)
        except OSError:
            return None


def _until(reached: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it was not so within {timeout_s:g} s that {what}")
        time.sleep(0.1)


def take(browser: Browser, admin: str, pages: Mapping[str, str], sizes: Iterable[str] = SIZES) -> None:
    """Take pictures of this moment: of the pages at these paths, by the name of their file."""
    for size in sizes:
        width, height = SIZES[size]
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                device_scale_factor=1.5 if size == "phone" else 1,
            )
            page = context.new_page()
            for name, path in pages.items():
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


def migration(show: Show, browser: Browser) -> None:
    """Move a group, and take the pictures in the middle of it."""
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
    take(browser, show.admin, {"groups": "/", "group": f"/groups/{GROUP}"})


def connect(show: Show, browser: Browser) -> None:
    """Have a Kafka Connect cluster lose a worker, and take the pictures while what that ran waits."""
    show.until_ready()
    with contextlib.ExitStack() as stack:
        workers = ConnectWorkers(show.clients, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(workers.stop)
        say("starting the workers of Kafka Connect")
        first = workers.start()
        for name, tasks in CONNECTORS.items():
            workers.create(first, name, tasks)
        for _ in range(2):
            workers.start()
        _until(lambda: show.workers(CONNECT, balanced=True) == 3, "three workers share the connectors")
        time.sleep(10)
        say("one is killed")
        workers.kill_last()
        _until(lambda: show.waits(CONNECT), "what it ran waits")
        time.sleep(3)
        take(browser, show.admin, {"connect": f"/groups/{CONNECT}"}, ["desktop"])


SCENES: Mapping[str, Callable[[Show, Browser], None]] = {"migration": migration, "connect": connect}


def main(scenes: Sequence[str]) -> None:
    """Take the pictures of these scenes, each on a proxy of its own; of all if none is named."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(RUN / "screenshots", say=say)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.remove)
        stack.callback(cluster.stop, grace_s=3)
        cluster.start()
        browser = stack.enter_context(_browser())
        for scene in scenes or SCENES:
            with contextlib.ExitStack() as shown:
                show = Show(cluster.bootstrap, Path(shown.enter_context(tempfile.TemporaryDirectory())))
                shown.callback(show.stop)
                SCENES[scene](show, browser)


def say(line: str) -> None:
    """Print progress at once."""
    print(f"screenshots: {line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
