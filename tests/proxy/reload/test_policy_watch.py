"""The policy comes from the ConfigMap at the Kubernetes API and from the file that it is mounted at, which is older."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from protocol_codecs.policy_manifest import MANIFEST, manifest_of
from proxy.config.loader import load_policy
from proxy.metrics.registry import Metrics
from proxy.reload.config_map_watch import ConfigMapWatch
from proxy.reload.policy_reloader import PolicyReloader
from proxy.reload.policy_watch import FILE_IS_CURRENT_AFTER_S, PolicyWatch
from proxy.runtime.file_watcher import POLL_INTERVAL_S, FileWatcher
from tests.proxy.fakes.kubernetes import LABELS, NAME, FakeApiServer
from tests.proxy.reload.reloading import inline
from translation.policy.policy import Policy

BEFORE = "rules: [{group: orders, mode: translate}]\n"
NEXT = "rules: [{group: payments, mode: translate}]\n"
LAST = "rules: [{group: returns, mode: translate}]\n"


class Proxy:
    """A policy file, and what is in force."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "policy.yaml"
        self.file.write_text(BEFORE)
        self.metrics = Metrics()
        self.applied: list[Policy] = []
        self.changed = trio.Event()
        reloader = PolicyReloader(
            self.file, self._apply, self.metrics, load_policy(self.file), run_in_thread=inline
        )
        self.reloader = reloader
        self.watch = PolicyWatch(NAME, self.file, reloader, self.metrics)

    def _apply(self, policy: Policy) -> None:
        self.applied.append(policy)
        self.changed.set()

    async def api_says(self, text: str) -> None:
        self.watch.found({NAME: {"policy.yaml": text}})
        await wait_all_tasks_blocked()

    @property
    def groups(self) -> list[str | None]:
        """The group of each policy that was applied."""
        return [policy.rules[0].group for policy in self.applied]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", labels)


@pytest.fixture
async def proxy(tmp_path: Path, nursery: trio.Nursery) -> Proxy:
    proxy = Proxy(tmp_path)
    nursery.start_soon(proxy.reloader.run)
    return proxy


@pytest.fixture
def said() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
async def polled(proxy: Proxy, nursery: trio.Nursery) -> Proxy:
    nursery.start_soon(FileWatcher(lambda: (proxy.watch,)).run)
    await trio.sleep(3 * POLL_INTERVAL_S)
    return proxy


async def test_what_is_in_force_already_is_not_applied_again(proxy: Proxy) -> None:
    await proxy.api_says(BEFORE)
    await proxy.api_says("# a comment\n" + BEFORE)
    assert proxy.applied == []
    assert proxy.metric("policy_version") == 1
    await proxy.api_says(NEXT)
    await proxy.api_says(NEXT)
    assert proxy.groups == ["payments"]
    assert proxy.metric("policy_version") == 2


async def test_the_file_that_lags_behind_does_not_take_the_policy_back(
    polled: Proxy, autojump_clock: trio.testing.MockClock
) -> None:
    await polled.api_says(NEXT)
    await polled.api_says(LAST)
    polled.file.write_text(NEXT)
    await trio.sleep(60)
    polled.watch.lost("reset")
    await wait_all_tasks_blocked()
    polled.file.write_text(BEFORE)
    await trio.sleep(60)
    assert polled.groups == ["payments", "returns"]


async def test_the_file_is_read_when_the_api_is_out_of_reach_for_long(
    polled: Proxy, autojump_clock: trio.testing.MockClock
) -> None:
    await polled.api_says(NEXT)
    polled.watch.lost("reset")
    await wait_all_tasks_blocked()
    polled.file.write_text(LAST)
    await trio.sleep(FILE_IS_CURRENT_AFTER_S - 1)
    polled.watch.lost("reset")
    await wait_all_tasks_blocked()
    assert polled.groups == ["payments"]
    await trio.sleep(1)
    polled.watch.lost("reset")
    await wait_all_tasks_blocked()
    assert polled.groups == ["payments", "returns"]
    polled.file.write_text(BEFORE)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert polled.groups == ["payments", "returns", "orders"], "and from then on"
    await polled.api_says(BEFORE)
    polled.file.write_text(NEXT)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert len(polled.applied) == 3, "and no more when the API is back"
    assert polled.metric("policy_watch_failures_total") == 3


async def test_the_file_is_read_until_the_api_answers(
    polled: Proxy, autojump_clock: trio.testing.MockClock
) -> None:
    polled.watch.lost("no pod")
    await wait_all_tasks_blocked()
    polled.file.write_text(NEXT)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert polled.groups == ["payments"]


@pytest.mark.parametrize(
    ("contents", "place"),
    [
        ({"policy.yaml": "rules: 1\n"}, f"ConfigMap {NAME}, key policy.yaml:1:1: rules: expected"),
        ({"policies.yaml": NEXT}, f"ConfigMap {NAME}, key policy.yaml: not there"),
        (None, f"ConfigMap {NAME}, key policy.yaml: not there"),
    ],
)
async def test_a_config_map_that_is_no_policy_is_refused_once(
    proxy: Proxy, contents: dict[str, str] | None, place: str, said: list[structlog.typing.EventDict]
) -> None:
    await proxy.api_says(NEXT)
    for _ in range(2):
        proxy.watch.found({} if contents is None else {NAME: contents})
        await wait_all_tasks_blocked()
    assert proxy.groups == ["payments"]
    assert proxy.metric("policy_is_current") == 0
    assert proxy.metric("policy_reloads_total", result="refused") == 1
    (refused,) = [line for line in said if line["log_level"] == "error"]
    assert refused["reason"].startswith(place)
    await proxy.api_says(NEXT)
    assert proxy.groups == ["payments"]
    assert proxy.metric("policy_is_current") == 1


async def test_an_outage_is_logged_once(proxy: Proxy, said: list[structlog.typing.EventDict]) -> None:
    for reason in ("reset", "reset", "refused", "refused"):
        proxy.watch.lost(reason)
        await wait_all_tasks_blocked()
    await proxy.api_says(BEFORE)
    assert [(line["log_level"], line.get("reason")) for line in said] == [
        ("warning", "reset"),
        ("warning", "refused"),
        ("info", None),
    ]


async def test_a_change_at_the_api_server_is_in_force_while_the_file_stays(
    proxy: Proxy, tmp_path: Path, nursery: trio.Nursery
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    server = FakeApiServer(account, {"policy.yaml": BEFORE})
    await nursery.start(server.serve)
    nursery.start_soon(ConfigMapWatch(NAME, proxy.watch, lambda: server.account).run)
    await server.change({"policy.yaml": NEXT})
    with trio.fail_after(10):
        await proxy.changed.wait()
    assert proxy.groups == ["payments"]


async def test_a_set_of_config_maps_is_in_force_once_all_that_its_manifest_names_is_there(
    proxy: Proxy, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Which ConfigMap comes first is not decided here: kubectl applies them one after another."""
    account = tmp_path / "account"
    account.mkdir()
    server = FakeApiServer(account, None)
    await nursery.start(server.serve)
    reloader = PolicyReloader(tmp_path, proxy._apply, proxy.metrics, Policy())
    nursery.start_soon(reloader.run)
    watch = PolicyWatch(None, tmp_path, reloader, proxy.metrics, labels=LABELS)
    nursery.start_soon(ConfigMapWatch(None, watch, lambda: server.account, labels=LABELS).run)
    files = {"wave-1.yaml": BEFORE.encode(), "wave-2.yaml": NEXT.encode()}
    await server.change({MANIFEST: manifest_of(files).decode()}, "set-manifest")
    await server.change({"wave-2.yaml": NEXT}, "set-2")
    await server.change({"wave-1.yaml": LAST}, "set-1")
    await server.change({"wave-1.yaml": BEFORE}, "set-1")
    with trio.fail_after(10):
        await proxy.changed.wait()
    assert [[rule.group for rule in policy.rules] for policy in proxy.applied] == [["orders", "payments"]]
    assert proxy.metric("policy_is_current") == 1


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        ({}, "no manifest.json among them"),
        ({"a": {"wave-1.yaml": BEFORE}}, "no manifest.json among them"),
        ({"a": {"wave-1.yaml": BEFORE}, "b": {"wave-1.yaml": NEXT}}, "wave-1.yaml is in both a and b"),
        ({"m": {MANIFEST: manifest_of({"wave-1.yaml": b""}).decode()}}, "wave-1.yaml: not there"),
    ],
)
async def test_a_set_that_is_not_whole_is_refused(
    proxy: Proxy,
    maps: dict[str, dict[str, str]],
    reason: str,
    said: list[structlog.typing.EventDict],
    nursery: trio.Nursery,
) -> None:
    reloader = PolicyReloader(proxy.file.parent, proxy._apply, proxy.metrics, Policy(), run_in_thread=inline)
    nursery.start_soon(reloader.run)
    PolicyWatch(None, proxy.file.parent, reloader, proxy.metrics, labels=LABELS).found(maps)
    await wait_all_tasks_blocked()
    assert proxy.applied == []
    (refused,) = [line for line in said if line["log_level"] == "error"]
    assert refused["reason"] == f"ConfigMaps with {LABELS}: {reason}" or refused["reason"].endswith(
        f"{reason}, and {MANIFEST} names it"
    )
