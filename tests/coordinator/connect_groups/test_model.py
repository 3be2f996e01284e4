"""The model that histories run on: mistakes of its judge and its workers that one history in thousands showed."""

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.connect_groups.work import as_message
from protocol_codecs import connect_groups as c
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord
from tests.coordinator.connect_groups.simulation.judge import Judge, Violation
from tests.coordinator.connect_groups.talk import GROUP, works

REBALANCE_MS = 3_000
CONFIGURED = as_message(works("a"))


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
