"""Calls that no honest client sends: whatever comes, nothing fails, nothing grows, and no partition has two owners."""

import random

import pytest

from coordinator.group_coordinator import GroupCoordinator
from coordinator.uuids import SeededUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol_codecs.codec import encode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GROUP = "billing"
LONG_AGO_MS = -1_000_000_000
"""The process has run for long: nobody waits for clients of an earlier one."""


class Hostile:
    """A room, and calls of any content. Every answer must belong to a call that waits, and can be encoded."""

    def __init__(self, *, started_ms: int = LONG_AGO_MS, **settings) -> None:
        self.now_ms = 0
        self._ids = 0
        self.waiting: dict[int, tuple[object, list]] = {}
        self.calls = 0
        self.room = HostedGroups(
            HostedSettings(**settings), new_id=self._new_id, uuids=SeededUuids(1), now_ms=started_ms
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"hosted-{self._ids}"

    @property
    def group(self):
        """The group of most tests."""
        return self.room.groups[GROUP]

    def send(self, message, *, connection: object = 0, version: int = 5) -> list:
        """Send a call; its answer comes into the list that is returned."""
        self.calls += 1
        answers: list = []
        self.waiting[self.calls] = message, answers
        call = HostedCall(key=self.calls, connection=connection, version=version)
        self.deliver(self.room.handle(call, message, self.now_ms))
        return answers

    def deliver(self, answers) -> None:
        """Hand out what the room has answered."""
        for answer in answers:
            _, to = self.waiting.pop(answer.call.key)
            encode(answer.message, answer.call.version)
            to.append(answer.message)

    def run(self, ms: int) -> None:
        """Let time pass. The room may not ask to be called for what it has just looked at."""
        end_ms = self.now_ms + ms
        while (due_ms := self.room.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.deliver(self.room.advance(self.now_ms))
            next_ms = self.room.next_deadline_ms()
            assert next_ms is None or next_ms > self.now_ms
        self.now_ms = end_ms

    def join(
        self, member_id: str = "", *, topics=("orders",), names=("own",), connection: object = 0, **more
    ):
        """A JoinGroup."""
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=tuple(topics)), 1)
        fields = {
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": tuple(JoinGroupRequestProtocol(name=name, metadata=subscription) for name in names),
        }
        return self.send(JoinGroupRequest(**{**fields, **more}), connection=connection)

    def sync(self, joined: JoinGroupResponse, assigned: dict[str, ConsumerProtocolAssignment]):
        """A SyncGroup of a leader."""
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=one, assignment=encode_assignment(part, 1))
                for one, part in assigned.items()
            ),
        )
        (answer,) = self.send(request)
        return answer

    def heartbeat(self, joined: JoinGroupResponse) -> ErrorCode:
        """A Heartbeat."""
        request = HeartbeatRequest(
            group_id=GROUP, member_id=joined.member_id, generation_id=joined.generation_id
        )
        (answer,) = self.send(request, version=4)
        return ErrorCode(answer.error_code)


def _part(user_data: bytes | None = None, **topics: tuple[int, ...]) -> ConsumerProtocolAssignment:
    partitions = tuple(
        ConsumerProtocolTopicPartition(topic=name, partitions=numbers) for name, numbers in topics.items()
    )
    return ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=user_data)


class Stranger:
    """Somebody who may act in the group, and sends whatever may confuse: by its seed."""

    TOPICS = ("a", "b", "c")
    ASSIGNORS = ("sticky", "cooperative-sticky", "own")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.bench = Hostile(
            started_ms=self.random.choice((0, LONG_AGO_MS)),
            initial_delay_ms=self.random.choice((0, 3_000)),
            most_members=5,
        )
        self.told: dict[str, JoinGroupResponse] = {}
        self.instances: dict[str, str | None] = {}
        self.joining: list[tuple[JoinGroupRequest, list]] = []
        self.installs = 0

    def act(self) -> None:
        """Send something, or let time pass."""
        for request, answers in [one for one in self.joining if one[1]]:
            self.joining.remove((request, answers))
            if not answers[0].error_code:
                self.told[answers[0].member_id] = answers[0]
                self.instances[answers[0].member_id] = request.group_instance_id
        pick = self.random
        self.bench.run(pick.choice((0, 0, 0, 1, 1_000, 7_000)))
        before = sum(group.rules.computing.installs for group in self.bench.room.groups.values())
        member_id = pick.choice([*self.told, *self.bench_members(), "", "stranger"])
        pick.choices(
            (self._join, self._sync, self._heartbeat, self._leave, self._disconnect), (30, 40, 20, 4, 4)
        )[0](member_id)
        self.installs += (
            sum(group.rules.computing.installs for group in self.bench.room.groups.values()) - before
        )
        self._check()

    def bench_members(self) -> list[str]:
        """Who is a member now."""
        group = self.bench.room.groups.get(GROUP)
        return [] if group is None else [*group.members, *group.members]

    def _check(self) -> None:
        group = self.bench.room.groups.get(GROUP)
        if group is None:
            return
        coordinated = group.rules.coordination.group
        assert coordinated is not None
        assert set(coordinated.members) == set(group.members)
        owned = [
            (topic, number)
            for member in group.members.values()
            for topic, numbers in group.rules.assigned_to(member).items()
            for number in numbers
        ]
        assert len(owned) == len(set(owned)), "two owners"

    def _number(self) -> int:
        pick = self.random
        return pick.randrange(3) if pick.random() < 0.95 else pick.choice((-1, 7, 2**31 - 1, -(2**31)))

    def _some_partitions(self) -> tuple[ConsumerProtocolTopicPartition, ...]:
        return tuple(
            ConsumerProtocolTopicPartition(topic=topic, partitions=(self._number(), self._number()))
            for topic in self.random.sample(self.TOPICS, 2)
        )

    def _join(self, member_id: str) -> None:
        pick = self.random
        names = pick.choice((self.ASSIGNORS, self.ASSIGNORS[1:], ("own",), ("own", "own"), ("own", "")))
        protocols = []
        for name in names:
            subscription = ConsumerProtocolSubscription(
                topics=tuple(pick.choices((*self.TOPICS, ""), (9, 9, 9, 1), k=pick.randrange(4))),
                user_data=pick.choice((None, b"", b"one")),
                owned_partitions=self._some_partitions() if pick.random() < 0.5 else (),
                generation_id=pick.choice((-1, 0, 2**31 - 1)),
            )
            content = encode_subscription(subscription, pick.randrange(4)) if pick.random() < 0.95 else b"\0"
            protocols.append(JoinGroupRequestProtocol(name=name, metadata=content))
        instance = self.instances.get(member_id) if member_id else pick.choice((None, None, "i", "j", ""))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=pick.choice((6_000, 30_000)),
            rebalance_timeout_ms=pick.choice((-1, 0, 5_000, 2**31 - 1)),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=tuple(protocols),
        )
        connection, version = pick.randrange(5), pick.choice((0, 4, 5, 9))
        self.joining.append((request, self.bench.send(request, connection=connection, version=version)))

    def _sync(self, member_id: str) -> None:
        pick, told = self.random, self.told.get(member_id)
        assigned: dict[str, ConsumerProtocolAssignment] = {}
        if told is not None and told.members:
            subscribed = {one.member_id: decode_subscription(one.metadata)[1].topics for one in told.members}
            given: dict[str, dict[str, tuple[int, ...]]] = {one: {} for one in subscribed}
            for topic in self.TOPICS:
                owners = [one for one, topics in subscribed.items() if topic in topics]
                for number in range(pick.choice((2, 3, 3)) if owners else 0):
                    if pick.random() < 0.97:
                        part = given[pick.choice(owners)]
                        part[topic] = (*part.get(topic, ()), number)
            assigned = {one: _part(pick.choice((None, b"x")), **part) for one, part in given.items()}
            if pick.random() < 0.2:
                wrong = ConsumerProtocolAssignment(assigned_partitions=self._some_partitions())
                assigned[pick.choice([*assigned, "stranger"])] = wrong
        self.bench.send(
            SyncGroupRequest(
                group_id=GROUP,
                member_id=member_id,
                group_instance_id=self.instances.get(member_id),
                generation_id=told.generation_id if told and pick.random() < 0.95 else pick.choice((-1, 0)),
                assignments=tuple(
                    SyncGroupRequestAssignment(
                        member_id=one,
                        assignment=encode_assignment(part, pick.randrange(4))
                        if pick.random() < 0.99
                        else pick.choice((b"", b"\0", b"\xff\xff")),
                    )
                    for one, part in assigned.items()
                ),
            ),
            version=pick.choice((0, 3, 5)),
        )

    def _heartbeat(self, member_id: str) -> None:
        told = self.told.get(member_id)
        generation = -1 if told is None else told.generation_id
        instance = self.instances.get(member_id)
        self.bench.send(
            HeartbeatRequest(
                group_id=GROUP, member_id=member_id, generation_id=generation, group_instance_id=instance
            ),
            version=4,
        )

    def _leave(self, member_id: str) -> None:
        one = MemberIdentity(member_id=member_id, group_instance_id=self.random.choice((None, "i", "j")))
        self.bench.send(LeaveGroupRequest(group_id=GROUP, members=(one, one)))

    def _disconnect(self, _member_id: str) -> None:
        bench = self.bench
        bench.deliver(bench.room.client_gone(self.random.randrange(5), bench.now_ms))


def test_whatever_is_sent_nothing_fails_and_no_partition_has_two_owners():
    installs = 0
    for seed in range(15):
        stranger = Stranger(seed)
        for _ in range(300):
            stranger.act()
        installs += stranger.installs
    assert installs > 10, "little of it was understood"


def test_a_heartbeat_costs_the_same_however_many_joins_wait(monkeypatch):
    bench = Hostile()
    leader = bench.join()
    bench.run(3_000)
    for number in range(249):
        bench.join(connection=number)
    asked = []
    handle = GroupCoordinator.handle
    monkeypatch.setattr(
        GroupCoordinator, "handle", lambda self, *more: asked.append(more) or handle(self, *more)
    )
    bench.heartbeat(leader[0])
    assert len(asked) <= 3


def test_a_connection_that_ends_is_looked_for_in_its_own_groups_only():
    bench = Hostile()
    bench.join(connection="mine")
    bench.group.roster.members = None  # nobody may ask for them
    assert bench.room.client_gone("another", bench.now_ms) == []


def test_groups_that_come_and_go_leave_nothing_behind():
    bench = Hostile(started_ms=0)
    for number in range(1_000):
        bench.join(group_id=f"group-{number}", connection=number, session_timeout_ms=1_800_000)
        bench.deliver(bench.room.client_gone(number, bench.now_ms))
    bench.run(1)
    room = bench.room
    assert len(room._booked) < 200
    assert (room.groups, room._joined_on, room._sizes, room._size) == ({}, {}, {}, 0)


def test_what_is_kept_of_all_groups_together_has_a_bound():
    bench = Hostile(most_bytes_of_all=1_300, bytes_of_a_topic=300)
    first = bench.join()
    assert first == []
    assert bench.join(group_id="another", topics=("a", "b")) == []
    (refused,) = bench.join(group_id="third", topics=("a", "b"))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.run(3_000)
    (rejoined,) = bench.join(first[0].member_id)
    assert rejoined.error_code == ErrorCode.NONE, "a member may rejoin with what it had"
    bench.send(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=first[0].member_id),)))
    assert bench.join(group_id="third", topics=("a", "b")) == []


def test_many_topics_with_short_names_count_as_what_they_take():
    bench = Hostile(most_bytes=20_000)
    (refused,) = bench.join(topics=[f"t{number}" for number in range(300)])
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_assignor_that_is_named_twice_is_refused():
    """What is kept of a client would be its request with all of them, and only one of them was counted."""
    (refused,) = Hostile().join(names=("own", "own"))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_assignment_that_is_too_large_is_not_installed():
    bench = Hostile(most_bytes=5_000)
    (joined,) = answers = bench.join() or _after(bench, 3_000)
    assert answers
    large = {joined.member_id: _part(bytes(6_000), orders=(0,))}
    assert bench.sync(joined, large).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (bench.group.rules.computing.installs, bench.group.rules.computing.refusals) == (0, 1)


def _after(bench: Hostile, ms: int) -> list:
    """The answers of the only JoinGroup that waits, when this time has passed."""
    ((_, answers),) = bench.waiting.values()
    bench.run(ms)
    return answers


def _two_members(bench: Hostile) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """Two members with a partition each, the leader first."""
    joins = [bench.join(topics=("orders", "other")) for _ in range(2)]
    bench.run(3_000)
    (leader,) = (answer for (answer,) in filter(None, joins) if answer.leader == answer.member_id)
    ids = [one.member_id for one in leader.members]
    parts = {one: _part(orders=(number,)) for number, one in enumerate(ids)}
    parts[leader.member_id] = _part(orders=(ids.index(leader.member_id),), other=(0, 1))
    assert bench.sync(leader, parts).error_code == ErrorCode.NONE
    (follower,) = (answer for (answer,) in joins if answer.member_id != leader.member_id)
    return leader, follower


def test_a_leader_whose_time_is_over_changes_nothing():
    bench = Hostile()
    _, follower = _two_members(bench)
    leader = bench.join(_leader_of(bench), topics=("orders", "other"), rebalance_timeout_ms=5_000)[0]
    assert leader.leader == leader.member_id
    for _ in range(3):
        bench.run(3_000)
        bench.heartbeat(leader)
        bench.heartbeat(follower)
    assert bench.group.rules.coordination.group.computation.member_id == follower.member_id
    image = bench.group.rules.coordination.image
    late = {leader.member_id: _part(orders=(0, 1, 2), other=(0, 1)), follower.member_id: _part()}
    assert bench.sync(leader, late).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.group.rules.coordination.image is image
    assert bench.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.group.rules.coordination.group.computation.member_id == follower.member_id


def _leader_of(bench: Hostile) -> str:
    return bench.group.rules.coordination.group.last_computing_member


@pytest.mark.parametrize("numbers", [(2**31 - 1,), (-1,), (-(2**31),)], ids=str)
def test_partitions_that_no_topic_has_cost_nothing(numbers):
    bench = Hostile()
    (joined,) = bench.join() or _after(bench, 3_000)
    answer = bench.sync(joined, {joined.member_id: _part(orders=numbers)})
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_topic_that_is_in_the_target_only_keeps_its_name():
    """Its owner has given it up and the next one has not come; then a leader drops it, and that is refused."""
    bench = Hostile()
    leader, follower = _two_members(bench)

    def computes(*unknown: str, **moved: tuple[int, ...]) -> None:
        joined = bench.join(leader.member_id, topics=("orders", "other"))[0]
        assert joined.leader == leader.member_id
        parts = {leader.member_id: _part(orders=(0, 1)), follower.member_id: _part(**moved)}
        bench.sync(joined, {**parts, **dict.fromkeys(unknown, _part())})

    computes(other=(0, 1))
    assert "other" not in bench.group.rules.assigned_to(bench.group.members[leader.member_id])
    for _ in range(4):  # twice in two rounds
        computes("stranger")
    assert bench.join(leader.member_id, topics=("orders", "other"))[0].error_code == ErrorCode.NONE
