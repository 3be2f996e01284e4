"""What must hold, by what is said on the wire and written to the log. It shares no code with what it judges.

It knows from the log's bytes who is in the group, its epochs and targets, and from answers who was told to compute.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from coordinator.log.batches import read_batches
from protocol_codecs import records as r
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    ClientAssignorsHeartbeatRequest,
    ClientAssignorsHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    CurrentAssignmentWithDetails,
    MemberMetadataWithClientAssignors,
    TargetAssignmentWithDetails,
)
from protocol_codecs.message import Message
from tests.coordinator.client_side.plan import HEARTBEAT_MS, Plan

if TYPE_CHECKING:
    from tests.coordinator.client_side.world import World

INVALID_ASSIGNMENT = 10001
_UNRELEASED = 2
SLACK_MS = 6 * HEARTBEAT_MS
"""For the next one to be told: its heartbeat, and some that are lost."""

Partitions = frozenset[tuple[bytes, int]]


class Violation(AssertionError):
    """Something that must hold does not."""


class KnownMember(msgspec.Struct):
    """A member as the log has it."""

    topics: frozenset[str]
    instance_id: str | None
    assignors: dict[str, tuple[int, int, int, int, bytes]]
    """By name: minimum, maximum, reason, version, metadata."""
    epoch: int = 0
    details: tuple[int, int, bytes] = (0, 0, b"")
    assigned: Partitions = frozenset()
    is_unreleased: bool = False
    """Whether others still have partitions of its target."""


class Target(msgspec.Struct, frozen=True):
    """The target of one member, as the log has it."""

    partitions: Partitions
    details: tuple[int, int, bytes]


NOTHING = Target(frozenset(), (0, 0, b""))


class Turn(msgspec.Struct):
    """Somebody was told to compute."""

    member_id: str
    told_ms: int
    prepared: ConsumerGroupPrepareAssignmentResponse | None = None


class Judge:
    """Watches one group. ``check_*`` raise Violation."""

    def __init__(self, world: "World", plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self.members: dict[str, KnownMember] = {}
        self.targets: dict[str, Target] = {}
        self.group_epoch = 1
        self.target_epoch = 1
        self.turn: Turn | None = None
        self._timed_out: tuple[str, int] | None = None
        """Whose time has passed last, and when, since the last install or restart."""
        self._waits: dict[str, int] = {}
        """Turns of others that ran out since a member had its own."""
        self._crowd: dict[str, int] = {}
        """How many members there were at most in that time: each of them may have had one."""
        """How many turns of others timed out since a member had its own, or joined."""
        self._needed_since_ms: int | None = None
        self._silent: set[str] = set()
        """Members that have died and may have been chosen since."""
        self._read = 0
        self.counts: dict[str, int] = {}
        self.has_failed = False
        """Whether the last assignor said that it failed, so that partitions may have nobody until it is asked again."""

    # What the coordinator does

    def before(self) -> None:
        """Look at the clock before the coordinator does something."""
        self._pass_time()

    def handled(self, member_id: str, request: Message, response: Message) -> None:
        """The coordinator has served a request."""
        before_targets, before_epoch = dict(self.targets), self.target_epoch
        known = member_id in self.members
        epoch = self.members[member_id].epoch if known else 0
        is_needed = self._is_needed()
        assignors = {one: _without_reasons(member) for one, member in self.members.items()}
        group_epoch = self.group_epoch
        records = self._new_records()
        for one, member in self.members.items():
            if one in assignors and assignors[one] != _without_reasons(member):
                self._must(
                    self.group_epoch > group_epoch, f"{one} has other metadata, and no assignment follows"
                )
        match request:
            case ConsumerGroupPrepareAssignmentRequest():
                assert isinstance(response, ConsumerGroupPrepareAssignmentResponse)
                self._must(not records, "asking writes nothing")
                self._check_caller(request, response.error_code, known=known, epoch=epoch, needed=is_needed)
                if response.error_code == ErrorCode.NONE:
                    self._check_prepared(response)
                    assert self.turn is not None
                    self.turn.prepared = response
                    self.count("prepared")
            case ConsumerGroupInstallAssignmentRequest():
                assert isinstance(response, ConsumerGroupInstallAssignmentResponse)
                self._judge_install(
                    request, response, records, before_targets, known=known, epoch=epoch, needed=is_needed
                )
            case ClientAssignorsHeartbeatRequest():
                self._judge_heartbeat(request, response, records, before_targets, before_epoch)
            case _:
                raise TypeError(request)
        self._after()

    def timers_fired(self) -> None:
        """The coordinator's timers have fired. They remove members, and change no target otherwise."""
        before = dict(self.targets)
        records = self._new_records()
        self._check_only_removed(before, records)
        self._after()

    def restarted(self) -> None:
        """A coordinator has started on the log. Nobody is chosen."""
        self.turn = None
        self._new_round()
        self._needed_since_ms = self._world.now if self._is_needed() else None

    # The clients

    def check_owners(self) -> None:
        """No partition has two owners among the members.

        A client that did not give something up within the rebalance timeout is none any more, and hears of it later.
        """
        owners: dict[tuple[bytes, int], str] = {}
        for member in self._world.members:
            if member.member_id not in self.members:
                continue
            for partition in member.owned:
                other = owners.setdefault(partition, member.member_id)
                self._must(
                    other == member.member_id, f"{partition[1]} is owned by {other} and {member.member_id}"
                )

    def is_settled(self) -> bool:
        """Whether everything that is to happen after the last fault has happened."""
        world = self._world
        alive = {member.member_id: member for member in world.members if member.is_alive}
        if set(alive) != set(self.members) or self.group_epoch != self.target_epoch:
            return False
        wanted = {
            (topic.topic_id, number)
            for topic in world.image.topics.values()
            if any(topic.name in member.topics for member in alive.values())
            for number in range(topic.partitions)
        }
        if set().union(*(member.owned for member in alive.values())) != wanted:
            return False
        return all(
            member.epoch == self.target_epoch
            and frozenset(member.owned) == self.targets[member_id].partitions
            and (member.server_side or member.details == self.targets[member_id].details)
            and not member.pending
            for member_id, member in alive.items()
        )

    # Heartbeats

    def _judge_heartbeat(
        self,
        request: ClientAssignorsHeartbeatRequest,
        response: Message,
        records: Sequence[r.CoordinatorRecord],
        before: dict[str, Target],
        before_epoch: int,
    ) -> None:
        if self._serves_itself():
            if self.target_epoch != before_epoch:
                self.count("assigned by the coordinator")
                self._must(
                    all(target.details == (0, 0, b"") for target in self.targets.values()),
                    "a server-side assignor says nothing beside partitions",
                )
                self.turn = None
                self._new_round()
        else:
            self._check_only_removed(before, records)
        told = isinstance(response, ClientAssignorsHeartbeatResponse) and response.should_compute_assignment
        if told:
            self._told(request.member_id, needed=self._is_needed())
        elif self.turn is not None and self.turn.member_id == request.member_id and self._is_needed():
            code = getattr(response, "error_code", 0)
            self._must(
                code != 0 or request.member_epoch < 0,
                f"{request.member_id} is to compute and is told that it is not",
            )
        member = self.members.get(request.member_id)
        if member is not None and isinstance(response, ClientAssignorsHeartbeatResponse):
            details = response.assignment_details
            if details is not None:
                self._must(
                    (details.error, details.metadata_version, details.metadata_bytes) == member.details,
                    "the answer has the metadata of the current assignment",
                )
                topic_ids = {
                    topic.topic_id
                    for topic in self._world.image.topics.values()
                    if topic.name in member.topics
                }
                target = {
                    one
                    for one in self.targets.get(request.member_id, NOTHING).partitions
                    if one[0] in topic_ids
                }
                self._must(
                    _set_of(details.pending_topic_partitions)
                    == (target - member.assigned if member.is_unreleased else frozenset()),
                    "the answer has the partitions that others still own",
                )

    def _told(self, member_id: str, *, needed: bool) -> None:
        """The member was told to compute, or has shown that it was chosen."""
        self._must(needed, f"{member_id} is to compute what nobody needs")
        member = self.members.get(member_id)
        self._must(member is not None and bool(member.assignors), f"{member_id} cannot compute")
        now = self._world.now
        if self.turn is not None and self.turn.member_id == member_id:
            return
        self._must(self.turn is None, f"{member_id} is told while it is the turn of {self.turn}")
        others = self._able_and_alive() - {member_id}
        if self._timed_out is not None and others:
            latest, at_ms = self._timed_out
            self._must(
                latest != member_id or now >= at_ms + self._plan.rebalance_ms,
                f"{member_id} has its turn again before {sorted(others)}",
            )
        for other in others:
            most = max(len(self.members), self._crowd.get(other, 0)) + 1
            self._must(self._waits.get(other, 0) <= most, f"{other} never has its turn")
        self._waits[member_id] = self._crowd[member_id] = 0
        self.turn = Turn(member_id, now)
        self._needed_since_ms = None
        self.count("told")

    def _pass_time(self) -> None:
        """End the turn whose time is over, and complain if nobody has been told for too long."""
        now = self._world.now
        turn = self.turn
        if turn is not None and now >= turn.told_ms + self._plan.rebalance_ms:
            has_others = bool(self._able_and_alive() - {turn.member_id})
            self._timed_out = (turn.member_id, turn.told_ms + self._plan.rebalance_ms) if has_others else None
            for other in self.members:
                self._waits[other] = self._waits.get(other, 0) + 1
                self._crowd[other] = max(len(self.members), self._crowd.get(other, 0))
            self.turn = None
            self.count("timed out")
            self._needed_since_ms = turn.told_ms + self._plan.rebalance_ms
        if self._needed_since_ms is None:
            self._silent = set()
        elif not self._able_and_alive():
            self._needed_since_ms = now
        else:
            self._silent |= {one for one in self.members if not self._is_alive(one)}
            allowed = SLACK_MS + len(self._silent) * self._plan.rebalance_ms
            self._must(
                now - self._needed_since_ms <= allowed + self._outage_ms(),
                f"nobody was told to compute for {now - self._needed_since_ms} ms",
            )

    def _new_round(self) -> None:
        self._timed_out, self._waits, self._crowd = None, {}, {}

    def _outage_ms(self) -> int:
        """Lost messages delay heartbeats; with many of them, by several request timeouts."""
        return int(self._plan.loss * 100_000)

    # Prepare and Install

    def _check_caller(
        self,
        request: ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest,
        code: int,
        *,
        known: bool,
        epoch: int,
        needed: bool,
    ) -> None:
        """Judge the answers that both calls have, in their order."""
        if not self.members and code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        if not known:
            self._must(code == ErrorCode.UNKNOWN_MEMBER_ID, f"a stranger is answered {code}")
        elif request.member_epoch != epoch:
            self._must(code == ErrorCode.STALE_MEMBER_EPOCH, f"a stale epoch is answered {code}")
        elif not needed:
            self._must(code == ErrorCode.UNKNOWN_MEMBER_ID, f"what nobody needs is answered {code}")
        elif self.turn is not None:
            chosen = self.turn.member_id == request.member_id
            self._must(
                (code != ErrorCode.UNKNOWN_MEMBER_ID) == chosen,
                f"{request.member_id}, in the turn of {self.turn.member_id}, is answered {code}",
            )
        if code in {ErrorCode.NONE, INVALID_ASSIGNMENT}:
            self._told(request.member_id, needed=needed)

    def _check_prepared(self, response: ConsumerGroupPrepareAssignmentResponse) -> None:
        self._must(response.group_epoch == self.group_epoch, "it is told of the present epoch")
        self._must(
            {member.member_id for member in response.members} == set(self.members),
            "it is told of all members",
        )
        topics = {topic.name: topic for topic in self._world.image.topics.values()}
        wanted = {name for member in self.members.values() for name in member.topics if name in topics}
        self._must(
            {(t.topic_name, t.topic_id, t.num_partitions) for t in response.topics}
            == {(name, topics[name].topic_id, topics[name].partitions) for name in wanted},
            "it is told of the subscribed topics",
        )
        for member in response.members:
            known = self.members[member.member_id]
            _, _, reason, version, metadata = known.assignors[response.assignor_name]
            said = member.assignor.reason, member.assignor.metadata_version, member.assignor.metadata_bytes
            self._must(said == (reason, version, metadata), "it is told what members declare")
            self._must(
                (member.member_epoch, member.instance_id) == (known.epoch, known.instance_id),
                "of each member",
            )
            self._must(
                set(member.subscribed_topic_ids) == {topics[name].topic_id for name in known.topics},
                "and what it subscribes to",
            )
            target = self.targets.get(member.member_id)
            self._must(
                _set_of(member.topic_partitions) == (target.partitions if target else frozenset()),
                "and its target",
            )

    def _judge_install(
        self,
        request: ConsumerGroupInstallAssignmentRequest,
        response: ConsumerGroupInstallAssignmentResponse,
        records: Sequence[r.CoordinatorRecord],
        before: dict[str, Target],
        *,
        known: bool,
        epoch: int,
        needed: bool,
    ) -> None:
        code = response.error_code
        self._check_caller(request, code, known=known, epoch=epoch, needed=needed)
        self._must(not records or code == ErrorCode.NONE, "what is refused changes nothing")
        if code not in {ErrorCode.NONE, INVALID_ASSIGNMENT}:
            return
        assert self.turn is not None
        fault = self._fault_of(request, self.turn.prepared)
        if fault is not None:
            self._must(code == INVALID_ASSIGNMENT, f"installed: {fault}")
            self.count(f"refused: {fault}")
            return
        self._must(code == ErrorCode.NONE, f"a right assignment is refused: {response.error_message}")
        self._must(self.target_epoch == request.group_epoch, "the target is of the epoch it was computed for")
        self._must(
            {type(record.key) for record in records}
            <= {r.ConsumerGroupTargetAssignmentMemberKey, r.ConsumerGroupTargetAssignmentMetadataKey},
            "an install writes targets only",
        )
        self._check_installed(request, before)
        self.count("installed" if self.target_epoch == self.group_epoch else "installed for an older epoch")
        self.has_failed = request.error != 0
        if request.error:
            self.count("installed: it failed")
        self.turn = None
        self._new_round()
        self._needed_since_ms = None

    def _check_installed(
        self, request: ConsumerGroupInstallAssignmentRequest, before: dict[str, Target]
    ) -> None:
        assert self.turn is not None
        assert self.turn.prepared is not None
        said = {
            member.member_id: Target(
                _set_of(member.partitions), (request.error, member.metadata_version, member.metadata_bytes)
            )
            for member in request.members
        }
        told_instances = {m.instance_id: m.member_id for m in self.turn.prepared.members if m.instance_id}
        told = {m.member_id for m in self.turn.prepared.members}
        for member_id, member in self.members.items():
            if request.error and not request.members:
                kept = before.get(member_id, NOTHING).partitions
                wanted = Target(kept, (request.error, 0, b""))
            else:
                as_told = member_id
                if member_id not in told and member.instance_id in told_instances:
                    as_told = told_instances[member.instance_id]
                    self.count("installed for a replaced member")
                wanted = said.get(as_told, NOTHING)
            self._must(
                self.targets.get(member_id, NOTHING) == wanted, f"the target of {member_id} is what was said"
            )

    @staticmethod
    def _fault_of(
        request: ConsumerGroupInstallAssignmentRequest, told: ConsumerGroupPrepareAssignmentResponse | None
    ) -> str | None:
        """Say what is wrong with an assignment for a group that was told of like this; None if nothing is."""
        if told is None:
            return "nobody asked"
        if request.group_epoch != told.group_epoch:
            return "another epoch"
        ids = [member.member_id for member in request.members]
        told_of = {member.member_id: member for member in told.members}
        if len(ids) != len(set(ids)):
            return "a member twice"
        if not set(ids) <= set(told_of):
            return "a member that is none"
        if any(not 0 <= member.metadata_version <= 3 for member in request.members):
            return "a version that is not read"
        given = [
            (m.member_id, t.topic_id, n) for m in request.members for t in m.partitions for n in t.partitions
        ]
        there = {(topic.topic_id, n) for topic in told.topics for n in range(topic.num_partitions)}
        topics = {topic.topic_id for topic in told.topics}
        partitions = [(topic_id, number) for _, topic_id, number in given]
        if any(t.topic_id not in topics for m in request.members for t in m.partitions):
            return "a topic that is not there"
        if any(
            t.topic_id not in told_of[m.member_id].subscribed_topic_ids
            for m in request.members
            for t in m.partitions
        ):
            return "to who does not subscribe"
        if not set(partitions) <= there:
            return "a partition that is not there"
        if len(partitions) != len(set(partitions)):
            return "a partition twice"
        if request.error and not request.members:
            return None
        return None if set(partitions) == there else "a partition to nobody"

    # The log

    def _new_records(self) -> list[r.CoordinatorRecord]:
        """Return what was written since, and go by it."""
        batches = self._world.log.batches[self._read :]
        self._read += len(batches)
        new = [
            record
            for _, batch in read_batches(
                b"".join(batches), "judge", CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS, gaps=True
            )
            for record in batch.records
        ]
        for record in new:
            self._apply(record)
        if batches:
            self._check_targets_are_disjoint()
        return new

    def _apply(self, record: r.CoordinatorRecord) -> None:
        match record.key, record.value:
            case r.ConsumerGroupMetadataKey(), r.ConsumerGroupMetadataValue(epoch=epoch):
                self.group_epoch = epoch
            case r.ConsumerGroupTargetAssignmentMetadataKey(), r.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch
            ):
                self._must(
                    self.target_epoch < epoch <= self.group_epoch, f"target {self.target_epoch} to {epoch}"
                )
                self.target_epoch = epoch
            case r.ConsumerGroupMemberMetadataKey(member_id=member_id), None:
                self.members.pop(member_id, None)
                self._waits.pop(member_id, None)
                self._crowd.pop(member_id, None)
                if self._timed_out is not None and self._timed_out[0] == member_id:
                    self._timed_out = None
                if self.turn is not None and self.turn.member_id == member_id:
                    self.turn = None
                    self._needed_since_ms = self._world.now
            case r.ConsumerGroupMemberMetadataKey(
                member_id=member_id
            ), MemberMetadataWithClientAssignors() as value:
                old = self.members.get(member_id)
                self.members[member_id] = KnownMember(
                    topics=frozenset(value.subscribed_topic_names),
                    instance_id=value.instance_id,
                    assignors={
                        a.name: (a.minimum_version, a.maximum_version, a.reason, a.version, a.metadata)
                        for a in value.client_assignors
                    },
                    epoch=old.epoch if old else 0,
                    details=old.details if old else (0, 0, b""),
                    assigned=old.assigned if old else frozenset(),
                    is_unreleased=bool(old and old.is_unreleased),
                )
            case r.ConsumerGroupTargetAssignmentMemberKey(member_id=member_id), None:
                self.targets.pop(member_id, None)
            case r.ConsumerGroupTargetAssignmentMemberKey(
                member_id=member_id
            ), TargetAssignmentWithDetails() as value:
                self.targets[member_id] = Target(
                    _set_of(value.topic_partitions),
                    (value.error, value.metadata_version, value.metadata_bytes),
                )
            case (
                r.ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id),
                CurrentAssignmentWithDetails() as value,
            ):
                member = self.members[member_id]
                member.epoch = value.member_epoch
                member.details = value.error, value.metadata_version, value.metadata_bytes
                member.assigned, member.is_unreleased = (
                    _set_of(value.assigned_partitions),
                    value.state == _UNRELEASED,
                )
                if self.turn is not None and self.turn.member_id == member_id and member.epoch == -2:
                    self.turn = None
                    self._needed_since_ms = self._world.now
            case r.ConsumerGroupCurrentMemberAssignmentKey(), None:
                pass
            case _:
                raise TypeError(record)

    def _check_targets_are_disjoint(self) -> None:
        seen: dict[tuple[bytes, int], str] = {}
        for member_id, target in self.targets.items():
            for partition in target.partitions:
                other = seen.setdefault(partition, member_id)
                self._must(other == member_id, f"{partition[1]} is in the targets of {other} and {member_id}")

    def _check_only_removed(self, before: dict[str, Target], records: Sequence[r.CoordinatorRecord]) -> None:
        """Targets go with their members, or from a static member to its replacement, and do not change otherwise."""
        written = [
            record.value
            for record in records
            if isinstance(record.key, r.ConsumerGroupTargetAssignmentMetadataKey)
        ]
        self._must(not written or not self.members, "the target has a new epoch, and nobody installed one")
        gone = [before[one] for one in before if one not in self.targets]
        for member_id, target in self.targets.items():
            if member_id not in before:
                self._must(target in (*gone, NOTHING), f"{member_id} has a target that nobody installed")
            else:
                self._must(
                    target == before[member_id], f"the target of {member_id} changes, and nobody installed it"
                )

    def _after(self) -> None:
        if not self._is_needed():
            self._needed_since_ms = None
            self.turn = None
        elif self.turn is None and self._needed_since_ms is None:
            self._needed_since_ms = self._world.now

    # The group

    def _serves_itself(self) -> bool:
        """Whether the coordinator assigns: members do only if all of them offer one assignor."""
        offered = [set(member.assignors) for member in self.members.values()]
        return not offered or not set.intersection(*offered)

    def _is_needed(self) -> bool:
        return bool(self.members) and not self._serves_itself() and self.target_epoch < self.group_epoch

    def _is_alive(self, member_id: str) -> bool:
        """Whether it is there, and knows that it is a member."""
        return any(m.member_id == member_id and m.is_alive and m.epoch > 0 for m in self._world.members)

    def _able_and_alive(self) -> set[str]:
        return {
            member_id
            for member_id, member in self.members.items()
            if member.assignors and member.epoch >= 0 and self._is_alive(member_id)
        }

    def count(self, what: str) -> None:
        """Count what happens, so that one sees what histories contain."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(what)


def _without_reasons(member: KnownMember) -> dict[str, tuple[int, int, int, bytes]]:
    return {
        name: (low, high, version, data) for name, (low, high, _, version, data) in member.assignors.items()
    }


def _set_of(topics) -> Partitions:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
