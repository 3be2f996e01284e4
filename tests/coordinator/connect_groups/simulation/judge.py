"""Judges a history by what workers run, what went over the wire and what is in the log; not by the coordinator's state.

1. No connector and no task runs on two workers.
2. A target is written only for an install that is an assignment of the group that its worker was told of last, and for
   each such install of the worker whose turn it is.
3. A worker that was told to compute is not waited for longer than its rebalance timeout, if there is another.
4. What an assignor says to a worker is given to it with the epoch that it was computed for.
5. A worker is removed only if it leaves or its time is over: it may be running its tasks.
6. In the end all that is configured runs, everybody is at one epoch, and nobody is to compute anything.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator.connect_groups.work import Work, listed
from protocol_codecs import connect_groups as c
from protocol_codecs.message import Message
from protocol_codecs.records import CoordinatorRecord

if TYPE_CHECKING:
    from tests.coordinator.connect_groups.simulation.worker import Worker

SILENT_MS = 2_500
"""A worker whose heartbeats come rarer than that."""


class Violation(AssertionError):
    """A history broke a rule."""


class Judge:
    def __init__(self, workers: Mapping[str, "Worker"]) -> None:
        self._workers = workers
        self._prepared: dict[str, c.ConnectGroupPrepareAssignmentResponse] = {}
        self._prepared_ms: dict[str, int] = {}
        self._members: dict[str, int] = {}
        """The rebalance timeouts of the members, as they are in the log."""
        self._turn: tuple[str, int] | None = None
        """Who was told to compute, and since when."""
        self._told_ms = 0
        """When it was told so last."""
        self._is_whole_turn = False
        """Whether it was told for the first time then; else the turn may have begun before."""
        self._alone_ms = 0
        """When the group had no two members last."""
        self.targets = 0
        self.longest_turn_ms = 0

    def look(self, member_id: str) -> None:
        """Look at a worker that has started something."""
        running = self._workers[member_id].running
        for other_id, other in self._workers.items():
            both = running & other.running
            if other_id != member_id and both:
                raise Violation(f"{min(both)} runs on {member_id} and on {other_id}")

    def metadata_given(self, member_id: str, epoch: int, metadata: bytes) -> None:
        if metadata and int(metadata) != epoch:
            raise Violation(
                f"{member_id} is at epoch {epoch}, and gets what was computed for {int(metadata)}"
            )

    def served(
        self, request: Message, response: Message | None, written: Iterable[CoordinatorRecord], now_ms: int
    ) -> None:
        """Judge a request that was served; without a response the coordinator died after it wrote the change."""
        for record in written:
            self._wrote(request, record)
        if len(self._members) < 2:
            self._alone_ms = now_ms
        match request, response:
            case c.ConnectGroupPrepareAssignmentRequest(), c.ConnectGroupPrepareAssignmentResponse():
                if response.error_code == 0:
                    self._prepared[request.member_id] = response
                    self._prepared_ms[request.member_id] = now_ms
            case c.ConnectGroupInstallAssignmentRequest(), c.ConnectGroupInstallAssignmentResponse():
                if response.error_code == 0:
                    self._turn = None
                elif (
                    response.error_code != 0 and self._is_in_turn(request, now_ms) and self._is_valid(request)
                ):
                    raise Violation(f"a valid assignment is refused: {response.error_message}")
            case c.ConnectGroupHeartbeatRequest(), c.ConnectGroupHeartbeatResponse():
                if response.should_compute_assignment:
                    self._told(request.member_id, now_ms)
                elif (
                    response.error_code == 0  # a refusal says nothing of the turn, which goes on
                    and self._turn is not None
                    and self._turn[0] == request.member_id
                ):
                    self._turn = None
            case _:
                pass

    def timers_fired(self, written: Iterable[CoordinatorRecord], now_ms: int) -> None:
        for record in written:
            self._wrote(None, record)
        if len(self._members) < 2:
            self._alone_ms = now_ms

    def restarted(self) -> None:
        self._turn = None
        self._prepared.clear()

    def at_the_end(self, configured: frozenset[Work], epochs: set[int]) -> None:
        running = [work for worker in self._workers.values() for work in worker.running]
        if sorted(running) != sorted(configured):
            raise Violation(f"runs {sorted(map(str, running))}, configured {sorted(map(str, configured))}")
        if len(epochs) != 1:
            raise Violation(f"the group is not at rest: epochs {epochs}")

    def _told(self, member_id: str, now_ms: int) -> None:
        """One that was silent for a while may have had its turn twice, with one between that nobody heard of."""
        silent_ms, self._told_ms = now_ms - self._told_ms, now_ms
        if self._turn is None or self._turn[0] != member_id:
            self._turn, self._is_whole_turn = (member_id, now_ms), True
            return
        since_ms = self._turn[1]
        if self._alone_ms >= since_ms or silent_ms > SILENT_MS:
            self._turn, self._is_whole_turn = (member_id, now_ms), False
            return
        self.longest_turn_ms = max(self.longest_turn_ms, now_ms - since_ms)
        if now_ms - since_ms >= self._members[member_id]:
            raise Violation(f"{member_id} has been told to compute for {now_ms - since_ms} ms")

    def _wrote(self, request: Message | None, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, c.ConnectWorkerGroupMemberMetadataKey):
            if isinstance(value, c.ConnectWorkerGroupMemberMetadataValue):
                self._members[key.member_id] = value.rebalance_timeout_ms
            else:
                self._members.pop(key.member_id)
                if request is not None and not _leaves(request, key.member_id):
                    raise Violation(f"{key.member_id} is removed by {type(request).__name__}")
                if self._turn is not None and self._turn[0] == key.member_id:
                    self._turn = None
        if not isinstance(key, c.ConnectWorkerGroupTargetAssignmentKey) or value is None:
            return
        assert isinstance(value, c.ConnectWorkerGroupTargetAssignmentValue)
        if not isinstance(request, c.ConnectGroupInstallAssignmentRequest):
            raise Violation(f"a target was written by {type(request).__name__}")
        if not self._is_valid(request):
            raise Violation(f"a target was written by a wrong install: {request}")
        if value.assignment_epoch != request.group_epoch:
            raise Violation(f"computed for {request.group_epoch}, installed for {value.assignment_epoch}")
        self.targets += 1
        wanted = {one.member_id: sorted(listed(one.connectors_and_tasks)) for one in request.members}
        if not request.error and any(
            sorted(listed(one.connectors_tasks)) != wanted.get(one.member_id) for one in value.members
        ):
            raise Violation("what was written is not what was computed")

    def _is_in_turn(self, request: c.ConnectGroupInstallAssignmentRequest, now_ms: int) -> bool:
        """Whether it is the turn of a worker in which it was told of the group, so that only its work can be wrong."""
        member_id = request.member_id
        if self._turn is None or self._turn[0] != member_id or member_id not in self._prepared:
            return False
        if not self._is_whole_turn:
            return False
        since_ms = self._turn[1]
        return (
            self._prepared_ms[member_id] >= since_ms
            and now_ms - since_ms < self._members[member_id]
            # A worker at epoch 0 has given its membership up, and joins anew before it can install anything.
            and request.member_epoch == self._workers[member_id].epoch > 0
        )

    def _is_valid(self, request: c.ConnectGroupInstallAssignmentRequest) -> bool:
        prepared = self._prepared.get(request.member_id)
        if prepared is None or prepared.group_epoch != request.group_epoch:
            return False
        if request.error and not request.members:
            return True
        names = [one.member_id for one in request.members]
        assigned = [work for one in request.members for work in listed(one.connectors_and_tasks)]
        return (
            len(names) == len(set(names))
            and set(names) <= {one.member_id for one in prepared.members}
            and sorted(assigned) == sorted(listed(prepared.configured))
        )


def _leaves(request: Message, member_id: str) -> bool:
    return (
        isinstance(request, c.ConnectGroupHeartbeatRequest)
        and request.member_epoch == -1
        and request.member_id == member_id
    )
