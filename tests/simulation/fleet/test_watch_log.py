"""The observer of the member log detects planted violations, and allows what the design has."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tests.simulation.clients.classic import ClassicClient
from tests.simulation.fleet.log_topic import LogTopic, LogWay, Written
from tests.simulation.fleet.watch_log import LogWatch
from tests.simulation.test_watch import Planted
from tests.simulation.violation import Violation
from tests.simulation.watch_answers import DEAD_BEFORE_JOINED
from tests.simulation.watch_commits import LATE_COMMIT
from tests.simulation.wire import GROUP, Ask
from tests.translation.member_log.model import Seen
from translation.member_log.records import Kind, MemberKey, MemberRecord

OTHER = SimpleNamespace(boot=("proxy1", 1), name="proxy1", is_ready=True)


class Scene:
    """A settled world of one replica, as seen by the observer of the log; its client is ``a``."""

    def __init__(self) -> None:
        self.planted = Planted()
        self.log: LogWatch = self.planted.watch.log
        assert isinstance(self.planted.a, ClassicClient)
        self.client = self.planted.a
        process = self.planted.process
        self.way: Any = SimpleNamespace(
            boot=(process.name, process.incarnation), name=process.name, is_ready=True
        )

    def called(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """The client's Heartbeat is read, and answered so."""
        ask = self.planted.heartbeat()
        self.log.read(self.planted.process, ask)
        self.log.arrived(self.client, ask)
        standing = self.planted.watch.standings[self.client]
        standing.heard()
        self.log.answered(self.planted.process, standing, ask, HeartbeatResponse(error_code=code), {code})

    def writes(self, kind: Kind, way: Any = None) -> None:
        key = MemberKey(GROUP, self.client.member_id)
        self.log.written(way or self.way, key, MemberRecord(kind, 1), unresolved=False)

    def pass_ms(self, time_ms: int) -> None:
        """Time passes, in which the client is heard elsewhere."""
        self.planted.world.kernel.now_ms += time_ms
        self.planted.watch.standings[self.client].heard_ms = self.planted.world.kernel.now_ms


@pytest.fixture
def scene() -> Scene:
    return Scene()


def broken() -> Any:
    return pytest.raises(Violation, match=r"^invariant 11: ")


def test_an_end_of_a_client_that_was_heard(scene: Scene) -> None:
    scene.called()
    scene.pass_ms(scene.client.pace.session_timeout_ms - 1)
    with broken():
        scene.writes(Kind.EXPIRING)


def test_an_end_of_a_client_that_was_silent(scene: Scene) -> None:
    scene.called()
    scene.pass_ms(scene.client.pace.session_timeout_ms)
    scene.writes(Kind.EXPIRING)


@pytest.mark.parametrize("rejoins", [False, True])
def test_an_end_of_a_client_that_did_not_rejoin_here_in_time(scene: Scene, rejoins: bool) -> None:
    """Wherever it has tried to: the end counts only if no other replica has it."""
    standing = scene.planted.watch.standings[scene.client]
    step_ms = scene.client.pace.session_timeout_ms // 2
    standing.rebalance_timeout_ms = 3 * step_ms
    for _ in range(4):
        scene.called(ErrorCode.REBALANCE_IN_PROGRESS)
        scene.pass_ms(step_ms)
    if not rejoins:
        scene.writes(Kind.EXPIRING)
        return
    scene.called()  # as one does that has joined
    scene.pass_ms(step_ms)
    with broken():
        scene.writes(Kind.EXPIRING)


def test_a_takeover_without_a_call(scene: Scene) -> None:
    scene.writes(Kind.SERVED)
    with broken():
        scene.writes(Kind.SERVED, OTHER)


def test_a_takeover_for_a_commit(scene: Scene) -> None:
    scene.writes(Kind.SERVED)
    scene.log.read(SimpleNamespace(name="proxy1", incarnation=1), scene.planted.commit(1))  # type: ignore[arg-type]
    with broken():
        scene.writes(Kind.SERVED, OTHER)


def test_a_takeover_for_a_heartbeat(scene: Scene) -> None:
    scene.writes(Kind.SERVED)
    message = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=scene.client.member_id)
    ask = Ask(1, ApiKey.HEARTBEAT, 4, "a", message)
    scene.log.read(SimpleNamespace(name="proxy1", incarnation=1), ask)  # type: ignore[arg-type]
    scene.writes(Kind.SERVED, OTHER)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_an_end_that_was_sent_before_its_id_was_read_as_dead(scene: Scene, begins_anew: bool) -> None:
    """One that was sent for the membership before, under the same id, is no such end."""
    process: Any = SimpleNamespace(
        name="proxy1",
        incarnation=1,
        member_log=SimpleNamespace(log=SimpleNamespace(record=lambda _: None)),
    )
    scene.log.called(process, "epochgate-a", -1)
    if begins_anew:
        scene.log.called(process, "epochgate-a", 0)
        scene.log.expired(process, "epochgate-a")
        return
    with broken():
        scene.log.expired(process, "epochgate-a")


@pytest.mark.parametrize("was_let_in", [False, True])
def test_a_join_group_under_a_dead_id_that_nobody_has_used(scene: Scene, was_let_in: bool) -> None:
    """Of an id that a client has used the end ends its contract first, or is a violation."""
    watch = scene.planted.watch
    assert isinstance(scene.planted.b, ClassicClient)
    member_id = scene.planted.b.member_id  # the broker has it
    if not was_let_in:
        del watch.client_of[member_id]
    record = SimpleNamespace(kind=Kind.EXPIRING)
    process: Any = SimpleNamespace(
        name="proxy1",
        incarnation=1,
        member_log=SimpleNamespace(log=SimpleNamespace(record=lambda _: record)),
    )
    ask = scene.planted.ask(ApiKey.JOIN_GROUP, JoinGroupRequest(group_id=GROUP, member_id=member_id), 9)
    watch.call_arrived(scene.planted.process, scene.client, ask)
    watch.log.arrived(scene.client, ask)
    refused = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(Violation, match=r"^invariant 6: ") if was_let_in else nullcontext():
        watch.answered(process, scene.client, ask, refused, arrives=True)
    assert watch.counts.get(DEAD_BEFORE_JOINED, 0) == (not was_let_in)


LATE, NEWER = 1, 2


@pytest.mark.parametrize(
    ("generation", "reads", "joined_here", "must_wait", "is_violation"),
    [
        pytest.param(NEWER, False, False, False, False, id="not read"),
        pytest.param(NEWER, True, False, False, True, id="read"),
        pytest.param(LATE, False, False, False, True, id="not newer"),
        pytest.param(LATE, False, False, True, False, id="not newer, which can't be written yet"),
        pytest.param(NEWER, True, False, True, True, id="read, and more can't be written yet"),
        pytest.param(NEWER, False, True, False, True, id="known without the log"),
    ],
)
@pytest.mark.parametrize("has_landed", [True, False])
def test_a_late_commit_of_a_client_that_has_joined_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    scene: Scene,
    generation: int,
    reads: bool,
    joined_here: bool,
    must_wait: bool,
    has_landed: bool,
    is_violation: bool,
) -> None:
    kernel, watch = scene.planted.world.kernel, scene.planted.watch
    topic = LogTopic(kernel, watch.log, 1)
    way, other = (
        LogWay(topic, (name, 1), lambda: kernel.now_ms / 1000, lambda _: None, lambda *_: False)
        for name in ("proxy1", "proxy2")
    )
    monkeypatch.setattr(other, "must_wait", lambda _: must_wait)
    key = MemberKey(GROUP, scene.client.member_id)
    record = MemberRecord(Kind.SERVED, 1, first=True, generation=generation)
    written = Written(kernel.now_ms, key, other.writer, record, Seen(None, 1, 10**12))
    if has_landed or reads:
        topic.append(written)
        assert topic.log.oracle.history[-1][key].record == record
    else:
        other._queue.append(written)
    if reads:
        way.read_soon()
        kernel.run_until(kernel.now_ms + 1_000)
    standing = watch.standings[scene.client]
    standing.generation, standing.joined_at = NEWER, ("proxy1" if joined_here else "proxy2", 1)
    (of_the_other,) = (partition for _, partition in scene.planted.b.named())
    ask = scene.planted.commit(LATE, of_the_other)
    watch.commits.asked(scene.client, ask)
    sender = SimpleNamespace(name="proxy1", incarnation=1, member_log=way)
    with pytest.raises(Violation, match=r"^invariant 3: ") if is_violation else nullcontext():
        link: Any = type("OneLink", (), {"near": sender})()
        watch.commits.accepted(ask.message, link)
    assert watch.counts.get(LATE_COMMIT, 0) == (not is_violation)
