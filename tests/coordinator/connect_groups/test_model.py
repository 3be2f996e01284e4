"""The model that histories run on: mistakes of its judge and its workers that one history in thousands showed."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.connect_groups.work import Work, as_message, from_message
from protocol_codecs import connect_groups as c
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord
from tests.coordinator.connect_groups.simulation.judge import Judge, Violation
from tests.coordinator.connect_groups.simulation.worker import SESSION_MS, Habits, Worker
from tests.coordinator.connect_groups.simulation.world import TROUBLE_MS, World
from tests.coordinator.connect_groups.talk import GROUP, text, works
from tests.simulation.kernel import Kernel

REBALANCE_MS = 3_000
CONFIGURED = as_message(works("a"))
LOST = None


class Judged:
    """A judge, and what ``w0`` of two workers says and is answered."""

    def __init__(self) -> None:
        workers: dict[str, Any] = {"w0": SimpleNamespace(epoch=2, running=set())}
        self.judge = Judge(workers)
        self.judge.timers_fired([_declared("w0"), _declared("w1")], now_ms=0)

    def heartbeat(self, now_ms: int, *, error: int = 0, told: bool = False) -> None:
        request = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="w0", member_epoch=2)
        response = c.ConnectGroupHeartbeatResponse(error_code=error, should_compute_assignment=told)
        self.judge.served(request, response, (), now_ms)

    def prepare(self, now_ms: int) -> None:
        request = c.ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id="w0", member_epoch=2)
        member = c.ConnectGroupPrepareAssignmentResponseMember(member_id="w0")
        response = c.ConnectGroupPrepareAssignmentResponse(
            group_epoch=3, members=(member,), configured=CONFIGURED
        )
        self.judge.served(request, response, (), now_ms)

    def refuse_install(self, now_ms: int) -> None:
        part = c.ConnectGroupInstallAssignmentRequestMember(member_id="w0", connectors_and_tasks=CONFIGURED)
        request = c.ConnectGroupInstallAssignmentRequest(
            group_id=GROUP, member_id="w0", member_epoch=2, group_epoch=3, members=(part,)
        )
        response = c.ConnectGroupInstallAssignmentResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.judge.served(request, response, (), now_ms)


def _declared(member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        c.ConnectWorkerGroupMemberMetadataKey(group_id=GROUP, member_id=member_id),
        c.ConnectWorkerGroupMemberMetadataValue(rebalance_timeout_ms=REBALANCE_MS),
    )


def test_a_valid_install_within_the_turn_must_not_be_refused():
    judged = Judged()
    judged.heartbeat(1_000, told=True)
    judged.prepare(1_100)

    with pytest.raises(Violation, match="a valid assignment is refused"):
        judged.refuse_install(1_000 + REBALANCE_MS - 1)


def test_a_turn_goes_on_when_a_heartbeat_of_its_worker_is_refused():
    judged = Judged()
    judged.heartbeat(1_000, told=True)
    judged.heartbeat(2_000, error=ErrorCode.FENCED_MEMBER_EPOCH)
    judged.heartbeat(2_500, told=True)
    judged.prepare(2_600)

    judged.refuse_install(1_000 + REBALANCE_MS)  # its turn is over: another worker is to compute


class Answered:
    """A worker, and the answers to its heartbeats one after another: what it may run, or LOST; LOST after the last."""

    def __init__(self, answers: Sequence[str | None], *, says_too_little: bool = False) -> None:
        self.kernel = Kernel(1)
        self.configs = 0, works("a b")
        self.judge = SimpleNamespace(metadata_given=lambda *_: None, look=lambda *_: None)
        self.metadata_of = lambda _member_id: b""
        self._answers = list(answers)
        self.sent_ms: list[int] = []
        self.said: list[str | None] = []
        habits = Habits(rebalance_timeout_ms=REBALANCE_MS, says_too_little=float(says_too_little))
        world: Any = self
        self.worker = Worker(world, "w0", habits)
        self.worker.start()

    def send(self, request: c.ConnectGroupHeartbeatRequest, then: Any) -> None:
        said = request.connectors_and_tasks
        self.sent_ms.append(self.kernel.now_ms)
        self.said.append(None if said is None else text(from_message(said)))
        may_run = self._answers.pop(0) if self._answers else LOST
        if may_run is LOST:
            return
        assignment = c.ConnectGroupHeartbeatResponseAssignment(
            connectors_and_tasks=as_message(works(may_run))
        )
        self.kernel.after(1, then, c.ConnectGroupHeartbeatResponse(member_epoch=1, assignment=assignment))

    def runs_at(self, when_ms: int) -> str:
        self.kernel.run_until(when_ms)
        return text(self.worker.running)


def test_a_worker_goes_on_when_the_coordinator_knows_that_it_has_stopped():
    answered = Answered(["a b", "b", "b", "b", "b", "b", "b"])

    answered.kernel.run_until(2_500)

    assert answered.said[:3] == ["", "a b", "b"]
    assert answered.runs_at(answered.sent_ms[1] + REBALANCE_MS) == "b"


def test_a_worker_gives_up_all_if_nobody_has_heard_in_time_that_it_has_stopped():
    answered = Answered(["a b", "b", LOST, "b"], says_too_little=True)

    answered.kernel.run_until(3_500)

    assert answered.said[:4] == ["", "a b", "b", None]
    deadline_ms = answered.sent_ms[1] + REBALANCE_MS
    assert answered.runs_at(deadline_ms - 2) == "b"
    assert answered.runs_at(deadline_ms - 1) == ""


def test_a_worker_without_answers_expects_that_it_was_told_to_stop_something():
    answered = Answered(["a b", LOST])

    answered.kernel.run_until(2_500)

    deadline_ms = answered.sent_ms[1] + REBALANCE_MS
    assert deadline_ms < answered.sent_ms[0] + SESSION_MS
    assert answered.runs_at(deadline_ms - 2) == "a b"
    assert answered.runs_at(deadline_ms - 1) == ""


@pytest.mark.parametrize("seed", range(1, 11))
def test_when_the_faults_end_something_is_configured_that_never_was_before(seed: int):
    world = World(seed)
    ever: set[Work] = set()
    configure = world._configure

    def watched(given: frozenset[Work]) -> None:
        ever.update(world.configs[1])
        configure(given)

    world._configure = watched
    world.kernel.after(1_000, world._something_happens)
    world.kernel.run_until(TROUBLE_MS)

    world._end_trouble()

    assert world.configs[1] - ever
