"""Hostile connections and members of the new protocol: violations are detected, and rights are those of Kafka."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.simulation import authorizer
from tests.simulation.authorizer import ALICE, MALLORY, OPEN_GROUP, OSCAR, TRUDY, Principal, why_refused
from tests.simulation.broker import Broker
from tests.simulation.clients.classic import Pace
from tests.simulation.clients.habits import JAVA_EAGER
from tests.simulation.clients.hostile import REBALANCE_TIMEOUT_MS, HostilePlan
from tests.simulation.clients.native import NativeMember
from tests.simulation.clients.speech import commit_request
from tests.simulation.network import Link
from tests.simulation.plan import ALWAYS_MS, ClientPlan, Plan
from tests.simulation.promptness import WITHIN_MS
from tests.simulation.proxy_process import ProxyProcess
from tests.simulation.simulation import compare_without_hostile, play, run
from tests.simulation.violation import Violation
from tests.simulation.watch_hostile import is_late_for_strangers_alone
from tests.simulation.wire import GROUP, Ask, Reply
from tests.simulation.world import World
from translation.actions import Call, CallId, Emit, Event, EventKind

HOSTILE = HostilePlan(name="h0", principal="mallory", starts_ms=3_000, pause_ms=500)


def plan(*hostiles: HostilePlan) -> Plan:
    """Return a plan in which a classic client and a member of the new protocol behind the proxy share a topic."""
    clients = tuple(
        ClientPlan(
            name=name,
            starts_ms=0,
            habits=habits,
            pace=Pace(),
            topics=frozenset({"orders"}),
            instance_id=None,
            through_proxy=habits is None,
            commits_for_ms=ALWAYS_MS if habits is None else 0,
        )
        for name, habits in (("a", JAVA_EAGER), ("n", None))
    )
    return Plan(
        seed=1,
        topics={"orders": 2},
        broker_session_ms=45_000,
        broker_heartbeat_ms=5_000,
        assignment_interval_ms=0,
        processes=1,
        slow_network=False,
        clients=clients,
        faults=(),
        calm_from_ms=10_000,
        hostiles=hostiles,
    )


class Scene:
    """A classic client, a native one, and an attacker with an open connection, after ten seconds."""

    def __init__(self) -> None:
        self.world = World(plan(HOSTILE))
        self.world.kernel.run_until(9_999)
        self.watch = self.world.watch
        self.process = self.world.processes[0]
        (self.hostile,) = self.world.hostiles
        self.a, self.native = self.world.clients

    def call(self, api_key: ApiKey, message: Any, client_id: str = "a") -> Call:
        on = next(id_ for id_, client in self.process._client_on.items() if client is self.a)
        return Call(api_key, 1, message, client_id, on, CallId(1))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def broken(number: int) -> Any:
    return pytest.raises(Violation, match=f"^invariant {number}: ")


def heartbeat(member_id: str, **about: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, **about)


# -- the broker's authorizer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principal", "code"),
    [
        (ALICE, None),
        (TRUDY, None),
        (OSCAR, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (MALLORY, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_heartbeat_needs_read_on_the_group(principal: Principal, code: ErrorCode | None) -> None:
    message = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    assert why_refused(principal, Ask(1, ApiKey.HEARTBEAT, 4, "", message)) == code
    elsewhere = msgspec.structs.replace(message, group_id=OPEN_GROUP)
    assert why_refused(principal, Ask(1, ApiKey.HEARTBEAT, 4, "", elsewhere)) is None


def test_to_describe_the_group_needs_describe() -> None:
    ask = Ask(1, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "", None)
    assert why_refused(OSCAR, ask) is None
    assert why_refused(MALLORY, ask) is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_consumer_group_heartbeat_needs_describe_on_each_topic() -> None:
    message = heartbeat("m", subscribed_topic_names=("orders", "refunds"))
    ask = Ask(1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, "", message)
    assert why_refused(TRUDY, ask) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert why_refused(ALICE, ask) is None


def test_an_upstream_connection_has_the_rights_of_its_client(scene: Scene) -> None:
    of = {shell.client.near: shell.upstream.principal for shell in scene.process.connections.values()}
    assert of[scene.a] is ALICE
    assert of[scene.hostile] is MALLORY


def test_the_broker_closes_a_connection_that_has_not_authenticated(scene: Scene) -> None:
    class Recorder:
        ended = False

        def received(self, link: Link, reply: Reply) -> None:
            raise AssertionError(reply)

        def disconnected(self, link: Link) -> None:
            self.ended = True

    client = Recorder()
    broker: Broker = scene.world.broker
    link = scene.world.network.connect("nobody", client, broker, authorizer.NOBODY)
    message = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    link.send(client, Ask(1, ApiKey.HEARTBEAT, 4, "", message))
    scene.world.kernel.run_until(scene.world.kernel.now_ms + 100)
    assert client.ended


# -- 5: Heartbeats are answered in time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more_ms", "cut_off", "violates"), [(1, False, True), (0, False, False), (1, True, False)]
)
def test_a_heartbeat_that_waits_too_long(scene: Scene, more_ms: int, cut_off: bool, violates: bool) -> None:
    standing = scene.watch.standings[scene.a]
    now_ms = scene.world.kernel.now_ms
    ask = Ask(9_999, ApiKey.HEARTBEAT, 4, "a", None)
    scene.watch._promptness.asked(standing, ask, now_ms)
    if cut_off:
        standing.broken_ms = now_ms
    late = scene.watch._promptness.why_late(standing, ask, now_ms + WITHIN_MS + more_ms)
    assert (late is not None) is violates


def test_a_heartbeat_of_a_process_that_was_replaced_may_wait(scene: Scene) -> None:
    """It has no session to lose."""
    standing = scene.watch.standings[scene.a]
    now_ms = scene.world.kernel.now_ms
    ask = Ask(9_999, ApiKey.HEARTBEAT, 4, "a", None)
    scene.watch._promptness.asked(standing, ask, now_ms)
    standing.replaced = True
    assert scene.watch._promptness.why_late(standing, ask, now_ms + WITHIN_MS + 1) is None


# -- 7: hostile connections ----------------------------------------------------------------------------------------


def changed(change: Callable[[Any], None]) -> Callable[[Scene], None]:
    """An event of the hostile connection in which the translation changes something."""

    def happens(scene: Scene) -> None:
        before = scene.watch.hostile.before(scene.process)
        change(scene.process.translator._context)
        scene.watch.hostile.after(scene.process, scene.hostile, before, "handle_request", [])

    return happens


def the_member(context: Any) -> Any:
    (member,) = context.registry.groups[GROUP].members.values()
    return member


@pytest.mark.parametrize(
    "change",
    [
        lambda context: context.registry.groups[GROUP].static_members.update(instance="m"),
        lambda context: context.registry.member(GROUP, "another"),
        lambda context: context.registry.group("another"),
        lambda context: setattr(the_member(context).client, "session_timeout_ms", 1),
        lambda context: setattr(the_member(context).queue, "running", object()),
        lambda context: context.timers.book(the_member(context), 0.0),
        lambda context: context.ids.issue(),
        lambda context: context.registry.relay(context.registry.groups[GROUP], "m"),
    ],
    ids=["instance id", "member", "group", "timeout", "turn", "deadline", "id given out", "relayed"],
)
def test_a_change_for_a_connection_without_rights(scene: Scene, change: Callable[[Any], None]) -> None:
    with broken(7):
        changed(change)(scene)


@pytest.mark.parametrize(
    "change",
    [lambda context: None, lambda context: context.registry.group(OPEN_GROUP)],
    ids=["nothing", "a group in which it may act"],
)
def test_what_changes_nothing_for_the_clients_of_the_group(
    scene: Scene, change: Callable[[Any], None]
) -> None:
    changed(change)(scene)


def test_what_has_run_out_by_itself_is_no_change(scene: Scene) -> None:
    group = scene.process.translator._context.registry.groups[GROUP]
    group.relayed_until["m"] = scene.process.now_s
    changed(lambda context: group.relayed_until.pop("m"))(scene)


def test_an_event_for_a_connection_without_rights(scene: Scene) -> None:
    before = scene.watch.hostile.before(scene.process)
    event = Emit(Event(kind=EventKind.PASSED_THROUGH, group_id=GROUP))
    with broken(7):
        scene.watch.hostile.after(scene.process, scene.hostile, before, "handle_request", [event])


@pytest.mark.parametrize(
    ("client_id", "about"),
    [
        ("h0", {}),
        ("a", {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS}),
        ("a", {"subscribed_topic_names": ("nobody-has-this-topic",)}),
    ],
    ids=["client id", "timeout", "topic"],
)
def test_words_of_a_hostile_client_on_another_connection(
    scene: Scene, client_id: str, about: dict[str, Any]
) -> None:
    message = heartbeat(scene.a.member_id, member_epoch=1, **about)
    with broken(7):
        scene.watch.called(
            scene.process, scene.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, message, client_id), lost=False
        )


def test_without_rights_the_history_of_all_others_is_the_same() -> None:
    result = run(1, plan(HOSTILE))
    assert result.failure is None, result.story
    assert result.counts["hostile calls of mallory"] > 10


@contextmanager
def delayed_when_hostile_ones_are_there() -> Iterator[None]:
    """Make Heartbeats take longer as soon as an attacker's connection is open."""
    next_ = ProxyProcess._next

    def broken_next(self: ProxyProcess, shell: Any) -> None:
        if len(self.connections) > 2 and shell.inbox and shell.inbox[0].api_key == ApiKey.HEARTBEAT:
            shell.upstream.to_far.slow_until_ms = self._kernel.now_ms + 50
        next_(self, shell)

    with patch.object(ProxyProcess, "_next", broken_next):
        yield


def test_a_difference_for_all_others_is_seen() -> None:
    with delayed_when_hostile_ones_are_there():
        world = World(plan(HOSTILE))
        play(world)
        with broken(7):
            compare_without_hostile(world)


def test_a_standstill_noticed_by_a_group_of_strangers_alone_is_no_difference(scene: Scene) -> None:
    translator, now = scene.process.translator, scene.process.now_s
    timers, group = translator._context.timers, translator._context.registry.group
    assert not is_late_for_strangers_alone(translator, now), "nothing was missed"
    timers.book(group(OPEN_GROUP), now - 1)
    assert is_late_for_strangers_alone(translator, now)
    timers.book(group(GROUP), now - 1)
    assert not is_late_for_strangers_alone(translator, now)


# -- 8: members of the new protocol --------------------------------------------------------------------------------


def test_a_native_member_comes_through_the_proxy_and_commits(scene: Scene) -> None:
    assert isinstance(scene.native, NativeMember)
    assert any(shell.client.near is scene.native for shell in scene.process.connections.values())
    assert scene.native.held
    assert scene.watch.counts["commits of members of the new protocol, through the proxy"] > 0


@pytest.mark.parametrize("epoch", [-2, -1, 0, 1])
def test_a_heartbeat_in_the_name_of_a_native_member(scene: Scene, epoch: int) -> None:
    message = heartbeat(scene.native.member_id, member_epoch=epoch)
    with broken(8):
        scene.watch.called(scene.process, scene.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, message), lost=False)


def test_a_leave_group_in_the_name_of_a_native_member(scene: Scene) -> None:
    members = (MemberIdentity(member_id=scene.native.member_id),)
    call = scene.call(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id=GROUP, members=members))
    with broken(8):
        scene.watch.called(scene.process, call, lost=False)


def test_a_native_member_that_is_adopted(scene: Scene) -> None:
    event = Event(kind=EventKind.ADOPTED, group_id=GROUP, member_id=scene.native.member_id)
    with broken(8):
        scene.watch.emitted(scene.process, event)


@pytest.mark.parametrize(("behind", "violates"), [(0, True), (1, False)])
def test_a_commit_of_a_native_member_that_the_proxy_refuses(
    scene: Scene, behind: int, violates: bool
) -> None:
    request = commit_request(
        member_id=scene.native.member_id,
        instance_id=None,
        generation=scene.native.epoch - behind,
        offsets={("orders", 0): 1},
    )
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.ILLEGAL_GENERATION)
    topics = (OffsetCommitResponseTopic(name="orders", partitions=(partition,)),)
    ask = Ask(9_999, ApiKey.OFFSET_COMMIT, 9, "n", request)
    answer = OffsetCommitResponse(topics=topics)

    def refuse() -> None:
        scene.watch.natives.answered(scene.process, scene.native, ask, answer, arrives=True)

    if violates:
        with broken(8):
            refuse()
    else:
        refuse()
