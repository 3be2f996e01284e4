"""A ConfigMap is watched at an API server that does what kube-apiserver does: it compacts, ends, refuses and breaks."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from proxy.reload import config_map_watch
from proxy.reload.api_server import ApiError, ServiceAccount
from proxy.reload.config_map_watch import LONGEST_PAUSE_S, ConfigMapWatch, Contents
from tests.proxy.fakes.kubernetes import NAME, FakeApiServer


class Told:
    """What the watch has told."""

    def __init__(self) -> None:
        self.contents: list[Contents | None] = []
        self.reasons: list[str] = []
        self._changed = trio.Event()

    def found(self, maps: Mapping[str, Contents]) -> None:
        contents = maps.get(NAME)
        self.contents.append(contents)
        self._wake()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, is_so: Callable[[], bool]) -> None:
        with trio.fail_after(20):
            while not is_so():
                await self._changed.wait()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def server(tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    monkeypatch.setattr(config_map_watch, "FIRST_PAUSE_S", 0.05)
    one = FakeApiServer(tmp_path, {"policy.yaml": "a"})
    await nursery.start(one.serve)
    return one


@pytest.fixture
async def watched(server: FakeApiServer, told: Told, nursery: trio.Nursery) -> FakeApiServer:
    nursery.start_soon(ConfigMapWatch(NAME, told, lambda: server.account).run)
    await server.until_watched()
    assert told.contents == [{"policy.yaml": "a"}]
    return server


async def test_a_change_is_told_at_once_and_on_the_same_watch(watched: FakeApiServer, told: Told) -> None:
    asked = len(watched.requests)
    await watched.change({"policy.yaml": "b"})
    await watched.bookmark()
    await watched.change({"policy.yaml": "c" * 900_000})
    await told.until(lambda: len(told.contents) == 3)
    assert told.contents[1:] == [{"policy.yaml": "b"}, {"policy.yaml": "c" * 900_000}]
    assert len(watched.requests) == asked
    assert told.reasons == []


async def test_it_is_told_that_the_config_map_went_and_came_back(watched: FakeApiServer, told: Told) -> None:
    await watched.change(None)
    await watched.change({"policy.yaml": "b"})
    await told.until(lambda: len(told.contents) == 3)
    assert told.contents[1:] == [None, {"policy.yaml": "b"}]


async def gone_while_watched(server: FakeApiServer) -> None:
    await server.compact()


async def gone_before(server: FakeApiServer) -> None:
    server.expired = 2
    server.cut()


async def cut(server: FakeApiServer) -> None:
    server.cut()


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (gone_while_watched, "the watch ended: too old resource version: 100"),
        (gone_before, "status 410: too old resource version"),
        (cut, "peer closed connection without sending complete message body"),
    ],
)
async def test_what_changes_after_a_watch_broke_is_found_by_listing(
    watched: FakeApiServer, told: Told, ended: Callable[[FakeApiServer], Awaitable[None]], reason: str
) -> None:
    await ended(watched)
    await watched.change({"policy.yaml": "b"})
    await told.until(lambda: told.contents[-1] == {"policy.yaml": "b"})
    await told.until(lambda: any(reason in one for one in told.reasons))
    await watched.until_watched()
    await watched.change({"policy.yaml": "c"})
    await told.until(lambda: told.contents[-1] == {"policy.yaml": "c"})


async def test_a_watch_that_ends_in_time_is_no_failure(
    server: FakeApiServer, told: Told, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_map_watch, "WATCH_S", 2)
    nursery.start_soon(ConfigMapWatch(NAME, told, lambda: server.account).run)
    await told.until(lambda: len(told.contents) == 2)
    assert told.reasons == []


async def test_watches_that_end_at_once_do_not_make_it_ask_without_a_pause(
    watched: FakeApiServer, told: Told
) -> None:
    watched.ends_watches = True
    await watched.bookmark()
    await told.until(lambda: len(told.reasons) == 3)
    assert set(told.reasons) == {"the watch ended as soon as it began"}


async def test_the_token_is_read_for_each_request(watched: FakeApiServer, told: Told) -> None:
    watched.rotate_token("second")
    watched.cut()
    await told.until(lambda: len(told.contents) == 2)
    assert {one["token"] for one in watched.requests[2:]} == {"second"}


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "configmaps is forbidden"), (429, "too many requests"), (500, "etcd is away")],
)
async def test_a_refusal_is_told_with_its_reason_and_tried_again(
    watched: FakeApiServer, told: Told, status: int, message: str
) -> None:
    watched.refusal = status, message
    watched.cut()
    await told.until(lambda: f"status {status}: {message}" in told.reasons)
    watched.refusal = None
    await told.until(lambda: len(told.contents) == 2)


@pytest.mark.parametrize(
    "garbage", [b"<html>", b'{"type": 1}', b"x" * 5_000_000, b'{"type": "ADDED", "object": 1}']
)
async def test_what_is_no_event_is_not_believed(watched: FakeApiServer, told: Told, garbage: bytes) -> None:
    watched.garbage = garbage
    await watched.bookmark()
    await told.until(lambda: bool(told.reasons))
    watched.garbage = None
    await told.until(lambda: len(told.contents) == 2)
    assert told.contents == [{"policy.yaml": "a"}] * 2


async def test_a_server_with_a_certificate_of_another_authority_gets_no_token(
    server: FakeApiServer, told: Told, nursery: trio.Nursery, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = FakeApiServer(other, None)
    account = ServiceAccount("127.0.0.1", server.port, other)
    nursery.start_soon(ConfigMapWatch(NAME, told, lambda: account).run)
    await told.until(lambda: bool(told.reasons))
    assert "certificate verify failed" in told.reasons[0]
    assert server.requests == stranger.requests == []


async def test_pauses_between_attempts_grow(
    told: Told, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    times: list[float] = []

    def no_account() -> ServiceAccount:
        times.append(trio.current_time())
        return ServiceAccount.of_pod({})

    nursery.start_soon(ConfigMapWatch(NAME, told, no_account).run)
    await trio.sleep(600)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    for n, pause in enumerate(pauses):
        longest = min(2.0**n, LONGEST_PAUSE_S)
        assert longest / 2 <= pause <= longest
    assert len(pauses) > 10
    assert told.reasons[0] == (
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod"
    )


@pytest.mark.parametrize("missing", ["token", "ca.crt", "namespace"])
def test_a_service_account_that_is_not_mounted_is_named(tmp_path: Path, missing: str) -> None:
    FakeApiServer(tmp_path, None)
    (tmp_path / missing).unlink()
    account = ServiceAccount("127.0.0.1", 1, tmp_path)
    with pytest.raises(ApiError, match=missing):
        _ = account.namespace, account.token, account.tls()
