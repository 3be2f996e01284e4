"""The observer detects planted violations: each invariant can fail, and does."""

from contextlib import nullcontext
from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.simulation.clients.classic import ClassicClient, Pace
from tests.simulation.clients.habits import JAVA_EAGER
from tests.simulation.clients.producer import Producer
from tests.simulation.clients.speech import commit_request
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.settling import why_not_settled
from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP, Ask, Reply
from tests.simulation.world import World
from translation.actions import Call, CallId, ConnectionId, Event, EventKind
from translation.members.member_state import MemberEvent


def settled_world() -> World:
    """Return a world in which two eager clients share two partitions."""
    clients = tuple(
        ClientPlan(
            name=name,
            starts_ms=0,
            habits=JAVA_EAGER,
            pace=Pace(),
            topics=frozenset({"orders"}),
            instance_id=None,
        )
        for name in ("a", "b")
    )
    world = World(
        Plan(
            seed=1,
            topics={"orders": 2},
            broker_session_ms=45_000,
            broker_heartbeat_ms=5_000,
            assignment_interval_ms=0,
            processes=1,
            slow_network=False,
            clients=clients,
            faults=(),
            calm_from_ms=0,
        )
    )
    world.kernel.run_until(15_000)
    assert why_not_settled(world) is None
    return world


class Planted:
    """A settled world, with methods that violate invariants in it."""

    def __init__(self) -> None:
        self.world = settled_world()
        self.watch = self.world.watch
        self.process = self.world.processes[0]
        self.a, self.b = self.world.clients

    def ask(self, api_key: ApiKey, message: Any, version: int = 4) -> Ask:
        return Ask(9_999, api_key, version, "a", message)

    def heartbeat(self) -> Ask:
        assert isinstance(self.a, ClassicClient)
        message = HeartbeatRequest(
            group_id=GROUP, generation_id=self.a.generation, member_id=self.a.member_id
        )
        return self.ask(ApiKey.HEARTBEAT, message)

    def commit(self, generation: int, partition: int | None = None) -> Ask:
        assert isinstance(self.a, ClassicClient)
        named = self.a.named() if partition is None else {("orders", partition)}
        message = commit_request(
            member_id=self.a.member_id,
            instance_id=None,
            generation=generation,
            offsets=dict.fromkeys(named, 1),
        )
        return self.ask(ApiKey.OFFSET_COMMIT, message, 8)

    def answered(self, ask: Ask, message: Any) -> None:
        self.watch.call_arrived(self.process, self.a, ask)
        self.watch.answered(self.process, self.a, ask, message, arrives=True)

    def called(self, api_key: ApiKey, message: Any) -> None:
        call = Call(api_key, 1, message, "a", ConnectionId(1), CallId(1))
        self.watch.called(self.process, call, lost=False)

    def released(self, epoch: int, owned: Any = None) -> None:
        assert isinstance(self.a, ClassicClient)
        message = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.a.member_id, member_epoch=epoch, topic_partitions=owned
        )
        self.called(ApiKey.CONSUMER_GROUP_HEARTBEAT, message)


def committed(code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="orders", partitions=(partition,)),))


@pytest.fixture
def planted() -> Planted:
    return Planted()


def broken(number: int) -> Any:
    return pytest.raises(Violation, match=f"^invariant {number}: ")


# -- 1: nobody holds what somebody else holds by contract ---------------------------------------------------------


def test_two_holders(planted: Planted) -> None:
    with broken(1):
        planted.b.hold(planted.a.held | planted.b.held)


def test_who_is_removed_in_the_moment_in_which_partitions_are_added_is_seen(planted: Planted) -> None:
    kernel, broker = planted.world.kernel, planted.world.broker
    kernel.now_ms += broker.config.consumer_session_timeout_ms
    broker.set_topic("orders", 3)
    assert str(planted.watch.story).count("its timeout has passed") == 2


def test_two_holders_are_no_violation_when_one_has_left(planted: Planted) -> None:
    planted.watch.leaving(planted.a)
    planted.b.hold(planted.a.held | planted.b.held)


def test_two_holders_are_no_violation_when_one_did_not_claim_what_it_holds(planted: Planted) -> None:
    planted.watch.standings[planted.a].disowned = planted.a.held
    planted.b.hold(planted.a.held | planted.b.held)


def test_a_member_within_its_contract_that_the_broker_removes(planted: Planted) -> None:
    with broken(1):
        planted.watch.expired(planted.world.broker, planted.a.member_id)


# -- 2: nothing is released upstream that somebody works on --------------------------------------------------------


@pytest.mark.parametrize(("epoch", "owned"), [(-1, None), (-2, None), (1, ())])
def test_a_release_without_proof(planted: Planted, epoch: int, owned: Any) -> None:
    with broken(2):
        planted.released(epoch, owned)


@pytest.mark.parametrize(("epoch", "violates"), [(-1, True), (0, False), (1, False)])
def test_a_late_heartbeat_counts_by_what_the_broker_makes_of_it(
    planted: Planted, epoch: int, violates: bool
) -> None:
    """Leaving frees everything at any age; an owned list frees only what the broker wants back."""
    broker = planted.world.broker
    assert broker.group is not None
    if epoch > 0:
        epoch = broker.group.members[planted.a.member_id].member_epoch
    message = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=planted.a.member_id, member_epoch=epoch, topic_partitions=()
    )
    ask = planted.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, message, 1)
    with broken(2) if violates else nullcontext():
        broker.received(next(iter(planted.a.lines.values())), ask)


@pytest.mark.parametrize("given_up", [True, False])
def test_an_owned_list_that_arrives_when_its_connection_was_given_up_is_not_judged(
    planted: Planted, *, given_up: bool
) -> None:
    """It had the epoch before, and the broker wants back what its client has got since."""
    broker = planted.world.broker
    assert broker.group is not None
    member_id, link = planted.a.member_id, next(iter(planted.a.lines.values()))
    member = broker.group.members[member_id]
    target = broker.group.target_assignment
    broker.group.target_assignment = {**target, member_id: {}}
    message = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=member.member_epoch, topic_partitions=()
    )
    broker.group.assignment_epoch = broker.group.group_epoch = member.member_epoch + 1
    if given_up:
        link._ended.append(link.near)
    with nullcontext() if given_up else broken(2):
        broker.received(link, planted.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, message, 1))
    assert (planted.watch.standings[planted.a].excuse() is not None) is given_up


@pytest.mark.parametrize(
    ("served", "loses", "excused"),
    [
        ((1, 0), "", True),
        ((0, 1), "", False),  # the newer one won, as it should
        ((0,), "", False),
        ((1, 0), "another member", False),
    ],
)
def test_a_client_may_lose_its_instance_id_to_an_older_join_group_of_its_own_and_to_no_other(
    planted: Planted, served: tuple[int, ...], loses: str, *, excused: bool
) -> None:
    memberships, standing = planted.watch.memberships, planted.watch.standings[planted.a]
    joins = [JoinGroupRequest(group_id=GROUP, group_instance_id="instance-a") for _ in range(2)]
    for join in joins:
        memberships.goes_to_the_broker(standing, join)
    for which in served:
        memberships.takeover_served(joins[which], loses or planted.a.member_id, f"member {which}")
    told = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    with nullcontext() if excused else broken(6):
        planted.answered(planted.heartbeat(), told)


@pytest.mark.parametrize("member_id", ["", "from before"])
def test_an_older_process_takes_its_instance_id_back_only_without_a_member_id(
    planted: Planted, member_id: str
) -> None:
    standing = planted.watch.standings[planted.a]
    standing.replaced = True
    join = JoinGroupRequest(group_id=GROUP, group_instance_id="instance-a", member_id=member_id)
    planted.watch.call_arrived(planted.process, planted.a, planted.ask(ApiKey.JOIN_GROUP, join))
    assert standing.replaced is bool(member_id)


def test_a_null_list_releases_nothing(planted: Planted) -> None:
    planted.released(1)


def test_a_leave_group_without_proof(planted: Planted) -> None:
    member = MemberIdentity(member_id=planted.a.member_id)
    with broken(2):
        planted.called(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id=GROUP, members=(member,)))


def test_a_release_of_a_client_whose_session_has_passed_is_none(planted: Planted) -> None:
    planted.watch.standings[planted.a].age(60_000)
    planted.released(-1)


# -- 3: commits ----------------------------------------------------------------------------------------------------


def test_an_old_generation_that_is_accepted(planted: Planted) -> None:
    with broken(3):
        planted.answered(planted.commit(0), committed(ErrorCode.NONE))


def test_the_current_generation_that_is_refused(planted: Planted) -> None:
    ask = planted.commit(planted.a.generation)
    with broken(3):
        planted.answered(ask, committed(ErrorCode.ILLEGAL_GENERATION))


@pytest.mark.parametrize("gives_up", [True, False])
def test_a_commit_that_a_join_group_overtakes_may_be_refused_for_what_that_gives_up(
    planted: Planted, *, gives_up: bool
) -> None:
    ask = planted.commit(planted.a.generation)
    planted.watch.call_arrived(planted.process, planted.a, ask)
    standing = planted.watch.standings[planted.a]
    standing.previous_generation, standing.generation = standing.generation, standing.generation + 1
    standing.synced = False
    standing.claims = frozenset() if gives_up else planted.a.held
    with nullcontext() if gives_up else broken(3):
        refused = committed(ErrorCode.REBALANCE_IN_PROGRESS)
        planted.watch.answered(planted.process, planted.a, ask, refused, arrives=True)


def test_a_commit_for_what_somebody_else_holds(planted: Planted) -> None:
    ((_, other),) = planted.b.held
    ask = planted.commit(planted.a.generation, partition=other)
    link = next(iter(planted.a.lines.values()))
    with broken(3):
        planted.watch.said(planted.world.broker, link, ask, committed(ErrorCode.NONE))


def test_a_commit_for_what_a_client_worked_on_without_claiming_it_is_no_violation(planted: Planted) -> None:
    link = next(iter(planted.a.lines.values()))
    ask = planted.commit(planted.a.generation)
    held = planted.a.held
    planted.watch.standings[planted.a].disowned = held
    planted.watch.asked(planted.a, link, ask)
    planted.watch.renewed(planted.a)
    planted.a.hold(())
    planted.b.hold(planted.b.held | held)
    planted.watch.said(planted.world.broker, link, ask, committed(ErrorCode.NONE))


@pytest.mark.parametrize(("behind", "violates"), [(1, True), (0, False)])
def test_a_late_commit_for_what_somebody_else_holds_by_now_counts_by_its_generation(
    planted: Planted, behind: int, violates: bool
) -> None:
    link = next(iter(planted.a.lines.values()))
    ask = planted.commit(planted.a.generation - behind)
    held = planted.a.held
    planted.watch.asked(planted.a, link, ask)
    planted.a.hold(())
    planted.b.hold(planted.b.held | held)
    with broken(3) if violates else nullcontext():
        planted.watch.said(planted.world.broker, link, ask, committed(ErrorCode.NONE))


@pytest.mark.parametrize(
    ("behind", "broken_for_ms", "code", "violates"),
    [
        pytest.param(0, None, ErrorCode.ILLEGAL_GENERATION, True, id="current"),
        pytest.param(1, None, ErrorCode.ILLEGAL_GENERATION, False, id="older"),
        pytest.param(0, None, ErrorCode.NOT_COORDINATOR, False, id="to be tried again"),
        pytest.param(0, 10, ErrorCode.ILLEGAL_GENERATION, False, id="from old state, maybe"),
    ],
)
def test_a_commit_of_a_producer_that_is_refused(
    planted: Planted, behind: int, broken_for_ms: int | None, code: ErrorCode, violates: bool
) -> None:
    assert isinstance(planted.a, ClassicClient)
    producer = Producer(planted.world, planted.a)
    planted.watch.began(producer)
    if broken_for_ms is not None:
        planted.watch.standings[producer].is_cut_off_for(broken_for_ms)
    ask = planted.commit(planted.a.generation - behind)
    planted.watch.producers.call_arrived(planted.process, producer, ask)
    with broken(3) if violates else nullcontext():
        planted.watch.producers.answered(planted.process, producer, ask, committed(code), arrives=True)


# -- 4: it settles -------------------------------------------------------------------------------------------------


def test_a_partition_that_nobody_holds(planted: Planted) -> None:
    planted.a.hold(())
    assert "a holds nothing, not orders" in (why_not_settled(planted.world) or "")


def test_a_member_that_nobody_is(planted: Planted) -> None:
    planted.a.member_id = "another"
    assert "members that nobody is" in (why_not_settled(planted.world) or "")


def test_a_client_that_was_not_moved_to_the_protocol_of_the_policy(planted: Planted) -> None:
    planted.watch.standings[planted.a].classic = True
    assert why_not_settled(planted.world) == "a has not been moved to the other protocol"


# -- 5: one answer, in order ---------------------------------------------------------------------------------------


def test_an_answer_out_of_order(planted: Planted) -> None:
    with broken(5):
        planted.watch.got(planted.a, planted.heartbeat(), Reply(1, HeartbeatResponse()))


def test_an_answer_to_nothing(planted: Planted) -> None:
    with broken(5):
        planted.watch.got(planted.a, None, Reply(1, HeartbeatResponse()))


def test_no_answer(planted: Planted) -> None:
    link = next(iter(planted.a.lines.values()))
    with broken(5):
        planted.watch.timed_out(planted.a, link, planted.heartbeat(), asked_ms=0)


# -- 6: rejoins only for a reason, and only codes that old clients know --------------------------------------------


def test_a_rejoin_without_a_change(planted: Planted) -> None:
    with broken(6):
        planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def test_a_rejoin_after_a_change(planted: Planted) -> None:
    planted.watch.standings[planted.a].given.add(frozenset())
    planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def test_a_rejoin_where_another_replica_has_had_the_member(planted: Planted) -> None:
    event = Event(
        kind=EventKind.STATE_CHANGED,
        group_id=GROUP,
        member_id=planted.a.member_id,
        reason=MemberEvent.TAKEN,
    )
    planted.watch.memberships.emitted(planted.process, event)
    planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


@pytest.mark.parametrize(("sent_at", "is_cause"), [(1, True), (2, False)])
def test_a_rejoin_because_a_heartbeat_was_held_up(planted: Planted, sent_at: int, is_cause: bool) -> None:
    """One that others have overtaken is a cause. One whose answer is lost is none: the next one brings that again."""
    standing = planted.watch.standings[planted.a]
    standing.epoch_heard = 2
    asked = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=planted.a.member_id, member_epoch=sent_at)
    planted.watch.memberships.heartbeat_served(asked, ConsumerGroupHeartbeatResponse(member_epoch=3))
    with nullcontext() if is_cause else broken(6):
        planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
)
def test_an_end_without_a_cause(planted: Planted, code: ErrorCode) -> None:
    with broken(6):
        planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=code))


def test_an_end_because_the_policy_changed_leaves_the_client_its_partitions(planted: Planted) -> None:
    planted.process.policy_read_ms = planted.world.kernel.now_ms
    planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    with broken(1):
        planted.b.hold(planted.a.held | planted.b.held)


def test_a_code_that_old_clients_do_not_know(planted: Planted) -> None:
    with broken(6):
        planted.answered(planted.heartbeat(), HeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))


def test_a_join_group_that_fails_in_a_way_that_some_clients_do_not_survive(planted: Planted) -> None:
    ask = planted.ask(ApiKey.JOIN_GROUP, None, 9)
    with broken(6):
        planted.watch.answered(
            planted.process,
            planted.a,
            ask,
            JoinGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            arrives=True,
        )


@pytest.mark.parametrize("arrives", [True, False])
def test_an_answer_that_makes_its_client_a_classic_member(planted: Planted, arrives: bool) -> None:
    """A process that stood still hands on what the broker said before its client went elsewhere."""
    standing = planted.watch.standings[planted.a]
    ask = planted.ask(ApiKey.JOIN_GROUP, None, 9)
    said = JoinGroupResponse(member_id="a-classic-id", generation_id=2)
    planted.watch.memberships.classic_join_answered(standing, ask, said, arrives=arrives)
    assert standing.classic is arrives
    assert (standing.member_id == "a-classic-id") is arrives
