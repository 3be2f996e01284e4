"""The rules of hosted groups, one by one."""

import pytest

from hosting.groups.consumers import formats
from hosting.groups.consumers.formats import StickyUserData
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
)
from protocol_codecs.codec import decode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_subscription,
)
from tests.hosting.groups.world import (
    GROUP,
    NEVER,
    REBALANCE_MS,
    SESSION_MS,
    World,
    balanced,
    cooperative,
)

TOPICS = {"orders": 4}
STICKY = {"sticky": balanced}
COOPERATIVE = {"cooperative-sticky": cooperative}


def _world(**settings) -> World:
    return World(1, dict(TOPICS), HostedSettings(**settings) if settings else None)


def _error_of_join(world: World, **changes) -> ErrorCode:
    """The error of a JoinGroup; NONE if it waits."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=("orders",)), 1)
    fields = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="sticky", metadata=subscription),),
        **changes,
    }
    answers = []
    stranger = world.add("stranger", {}, eager=True)
    stranger.due_ms = NEVER
    world.send(stranger, JoinGroupRequest(**fields), answers.append)
    return ErrorCode(answers[0].error_code) if answers else ErrorCode.NONE


def test_the_first_join_waits_for_others():
    world = _world()
    members = [world.add(name, STICKY, eager=True) for name in ("a", "b")]
    world.run(2_900)
    assert all(member.waits for member in members)
    world.run(200)
    world.settled()
    assert [member.syncs for member in members] == [1, 1]


def test_after_a_start_nobody_is_given_anything_for_a_session_timeout():
    """A client of an earlier process may not have heard yet that it is a member no longer."""
    world = _world()
    world.room.closed_from_ms = lambda _: 0
    member = world.add("a", STICKY, eager=True)
    world.run(SESSION_MS - 1)
    assert member.waits
    world.run(1)
    world.settled()


def test_members_whose_part_does_not_change_are_not_disturbed():
    world = _world()
    world.topics["orders"] = 5
    members = [world.add(name, STICKY, eager=True) for name in ("a", "b", "c")]
    world.run(10_000)
    world.settled()
    before = {member.name: (member.owned, member.syncs) for member in members}
    members[0].leave()
    world.run(20_000)
    world.settled()
    disturbed = [one.name for one in members[1:] if one.syncs != before[one.name][1]]
    changed = [one.name for one in members[1:] if one.owned != before[one.name][0] or one.leads]
    assert set(disturbed) == set(changed)


def test_a_cooperative_member_keeps_what_stays_with_it():
    world = _world()
    first = world.add("a", COOPERATIVE, eager=False)
    world.run(10_000)
    seen = []
    world.check = lambda when: seen.append((when, first.owned))
    world.add("b", COOPERATIVE, eager=False)
    world.run(20_000)
    world.settled()
    assert all(first.owned <= owned for _, owned in seen)
    assert len(first.owned) == 2


def test_a_leader_that_computes_nonsense_installs_nothing_and_another_one_is_asked():
    def twice(members, topics):
        return {member_id: {("orders", number) for number in range(4)} for member_id in members}

    def endless(members, topics):
        return {member_id: {("orders", number) for number in range(20_001)} for member_id in members}

    def gap(members, topics):
        return {member_id: {("orders", 3)} if member_id == min(members) else set() for member_id in members}

    for wrong in (twice, gap, endless):
        world = _world()
        world.add("wrong", {"acme": wrong}, eager=True)
        world.run(100)
        right = world.add("right", {"acme": balanced}, eager=True)
        world.run(2 * REBALANCE_MS + 20_000)
        assert right.computes > 0
        assert world.room.groups[GROUP].rules.computing.refusals > 0
        world.check("nonsense was computed")


def test_a_leader_that_dies_is_replaced():
    world = _world()
    members = [world.add(name, STICKY, eager=True) for name in ("a", "b")]
    world.run(10_000)
    leader = next(member for member in members if member.leads)
    leader.die()
    world.run(SESSION_MS + 10_000)
    world.settled()


def test_who_has_no_assignor_in_common_is_refused():
    world = _world()
    world.add("a", STICKY, eager=True)
    world.run(10_000)
    other = encode_subscription(ConsumerProtocolSubscription(topics=("orders",)), 1)
    protocols = (JoinGroupRequestProtocol(name="other", metadata=other),)
    assert _error_of_join(world, protocols=protocols) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": (JoinGroupRequestProtocol(name="sticky", metadata=b"\0"),)},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (
            {"protocols": (JoinGroupRequestProtocol(name=" ", metadata=b"\0\0\0\0\0\0\0\0\0\0"),)},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "hosted-nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
    ids=["no consumers", "no assignor", "no subscription", "no name", "session timeout", "unknown member"],
)
def test_joins_that_are_refused(changes, code):
    world = _world()
    assert _error_of_join(world, **changes) is code
    assert not world.room.has_members(GROUP), "nothing is kept of it"
    world.run(10_000)


def test_what_is_kept_of_clients_has_bounds():
    world = _world(most_members=2)
    world.add("a", STICKY, eager=True)
    world.add("b", STICKY, eager=True)
    world.run(10_000)
    assert _error_of_join(world) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert _error_of_join(_world(most_bytes=10)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert _error_of_join(_world(most_groups=0)) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_disconnects_before_it_has_a_member_id_leaves_nothing_behind():
    world = _world()
    client = world.add("a", STICKY, eager=True)
    world.run(1_000)
    assert world.room.has_members(GROUP)
    client.die()
    assert not world.room.has_members(GROUP)


def test_a_static_member_that_comes_again_takes_its_place_and_fences_the_old_one():
    world = _world()
    two = [world.add(name, STICKY, eager=True, instance_id=name) for name in ("a", "b")]
    world.run(10_000)
    first = next(member for member in two if not member.leads)  # a leader's successor has it computed anew
    owned, computed = first.owned, sum(client.computes for client in world.clients)
    former = first.member_id, first.generation
    first.alive, first.owned = False, frozenset()
    again = world.add("again", STICKY, eager=True, instance_id=first.instance_id)
    world.run(1_000)
    assert again.owned == owned
    assert sum(client.computes for client in world.clients) == computed, "nobody computed anew"
    answers = []
    call = HeartbeatRequest(
        group_id=GROUP, member_id=former[0], generation_id=former[1], group_instance_id=first.instance_id
    )
    world.send(again, call, answers.append)
    assert answers[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_what_java_sticky_assignor_remembers_is_written_anew():
    """Members that did not rejoin would be told with what they had when they last did."""
    owned = (ConsumerProtocolTopicPartition(topic="orders", partitions=(0, 2)),)
    old = encode_subscription(ConsumerProtocolSubscription(topics=("orders",), user_data=b"old"), 1)
    told = formats.read_subscription(
        formats.for_leader("sticky", formats.read_subscription(old), owned, generation=7)
    ).message
    assert decode(StickyUserData, 0, told.user_data) == StickyUserData(
        previous_assignment=owned, generation=7
    )
    assert told.topics == ("orders",)
    other = formats.for_leader("acme", formats.read_subscription(old), owned, generation=7)
    assert formats.read_subscription(other).message.user_data == b"old"


def test_a_newcomer_waits_for_the_target_and_its_partitions():
    """It would have to join twice otherwise, and eager clients would stop for it."""
    world = _world()
    world.add("a", STICKY, eager=True)
    world.run(10_000)
    newcomer = world.add("b", STICKY, eager=True)
    world.run(10_000)
    world.settled()
    assert newcomer.syncs == 1


def test_calls_of_another_generation_are_refused():
    world = _world()
    member = world.add("a", STICKY, eager=True)
    world.run(10_000)
    answers = []
    world.send(
        member,
        SyncGroupRequest(group_id=GROUP, member_id=member.member_id, generation_id=member.generation + 1),
        answers.append,
    )
    world.send(
        member,
        HeartbeatRequest(group_id=GROUP, member_id=member.member_id, generation_id=member.generation - 1),
        answers.append,
    )
    assert [answer.error_code for answer in answers] == [ErrorCode.ILLEGAL_GENERATION] * 2


class Planted(Exception):
    """A bug of this test's own."""


def _plant(world: World, method: str) -> None:
    """Let the group fail at the next call that needs this method of its rules."""

    def fails(*_arguments, **_named):
        raise Planted(method)

    setattr(world.room.groups[GROUP].rules, method, fails)


def _join_elsewhere(world: World) -> list[JoinGroupResponse]:
    """A JoinGroup of another group; its answers."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=("orders",)), 1)
    answers: list[JoinGroupResponse] = []
    stranger = world.add("stranger", {}, eager=True)
    world.clients.remove(stranger)
    world.send(
        stranger,
        JoinGroupRequest(
            group_id="another",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="sticky", metadata=subscription),),
        ),
        answers.append,
    )
    return answers


@pytest.mark.parametrize("method", ["move", "has_to_rejoin", "leave", "next_deadline_ms"])
def test_a_bug_in_one_group_ends_that_group_only(method):
    world = _world()
    failures = []
    world.room._on_failure = lambda group_id, failure: failures.append((group_id, failure))
    members = [world.add(name, STICKY, eager=True) for name in ("a", "b")]
    world.run(10_000)
    world.settled()
    before = {member.member_id for member in members}
    _plant(world, method)
    if method == "leave":
        members.pop().leave()
    elsewhere = _join_elsewhere(world)
    world.run(4_000)
    world.run(2 * SESSION_MS + 10_000)
    ((group_id, failure),) = failures
    assert (group_id, type(failure)) == (GROUP, Planted)
    assert [answer.error_code for answer in elsewhere] == [ErrorCode.NONE], "the other group went on"
    world.settled()
    assert not before & {member.member_id for member in members}, "its members have joined anew"


def test_a_group_that_a_bug_has_ended_gives_nothing_away_before_its_members_sessions_are_over():
    """A member that has not heard of it yet may still work on its partitions."""
    world = _world()
    first = world.add("a", STICKY, eager=True)
    world.run(10_000)
    first.due_ms = NEVER
    _plant(world, "advance")
    newcomer = world.add("b", STICKY, eager=True)
    failed_ms = []
    world.room._on_failure = lambda *_: failed_ms.append(world.now_ms)
    world.run(SESSION_MS - 1)
    assert newcomer.syncs == 0
    assert world.room.has_members(GROUP), "so that nobody joins at the broker meanwhile"
