"""Classic groups."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.scenarios.steps import all_join, all_sync, restart_static_member, stable_pair
from tests.coordinator.script import Script


@scenario
def classic_group_lives(s: Script) -> None:
    """Join, sync, heartbeat, rebalance, leave."""
    s.topic("foo", 4)
    a, b = stable_pair(s)
    s.describe_classic()
    s.list()
    a.beat()
    b.beat()
    a.commit({"foo": {0: 3}})
    b.beat(generation_id=b.generation - 1)
    b.commit({"foo": {2: 3}}, epoch=b.generation - 1)
    b.leave()
    a.beat()
    all_join(a)
    a.commit({"foo": {0: 4}})
    all_sync({"A": {"foo": [0, 1, 2, 3]}}, a)
    s.describe_classic()
    s.offsets()
    s.delete_group()
    a.leave()
    s.describe_classic()
    s.delete_group()
    s.describe_classic()


@scenario
def classic_errors(s: Script) -> None:
    """Wrong members, generations, protocols and timeouts."""
    s.topic("foo", 2)
    a = s.classic("A")
    stranger = s.classic("X", member_id="nobody")
    stranger.joined(stranger.send_join())
    stranger.beat()
    stranger.sync()
    stranger.leave()
    s.describe_classic()
    too_short = s.classic("S", session_timeout_ms=10)
    too_short.joined(too_short.send_join())
    a.join()
    a.sync(generation_id=99)
    a.sync(protocol_name="other")
    a.sync(protocol_type="other")
    a.sync(protocol_type=None)
    a.sync({a.member_id: {"foo": [0, 1]}})
    a.sync()
    other = s.classic("B", protocols=("other",))
    other.joined(other.send_join())
    kind = s.classic("C", protocol_type="connect")
    kind.joined(kind.send_join())
    stranger.joined(stranger.send_join())
    stranger.sync()
    stranger.beat()
    stranger.leave()
    a.beat(group_instance_id="me")
    s.commit("nobody", {"foo": {0: 1}})
    a.commit({"foo": {0: 1}}, version=5)
    a.joined(a.send_join())
    a.sync({a.member_id: {"foo": [0, 1]}})
    s.describe_classic()


@scenario
def classic_followers(s: Script) -> None:
    """A follower that joins again unchanged is answered at once; one that changed its mind starts a rebalance."""
    s.topic("foo", 4)
    a, b = stable_pair(s, embedded_version=0)  # what they send does not change with what they own
    follower, leader = (b, a) if a.is_leader else (a, b)
    follower.joined(follower.send_join(owned={}))
    follower.sync()
    follower.beat()
    follower.joined(follower.send_join())
    follower.topics = ("foo", "bar")
    waiting = follower.send_join()
    leader.beat()
    all_join(leader)
    follower.joined(waiting)
    all_join(leader, follower)
    all_sync({"A": {"foo": [0, 1]}, "B": {"foo": [2, 3]}}, a, b)
    waiting = leader.send_join()
    follower.beat()
    follower.joined(follower.send_join())
    leader.joined(waiting)
    s.describe_classic()


@scenario
def classic_member_expires(s: Script) -> None:
    """A silent member is removed, and the others rebalance."""
    s.topic("foo", 4)
    a, b = stable_pair(s, session_timeout_ms=1500, rebalance_timeout_ms=2000)
    for _ in range(4):
        s.pass_time(500)
        a.beat()
    all_join(a)
    s.describe_classic()
    all_sync({"A": {"foo": [0, 1, 2, 3]}}, a)
    b.beat()


@scenario
def classic_member_does_not_join(s: Script) -> None:
    """A member that heartbeats but does not join again is left behind."""
    s.topic("foo", 4)
    a, b = stable_pair(s, rebalance_timeout_ms=1500)
    a.topics = ("foo", "bar")
    waiting = a.send_join()
    b.beat()
    s.pass_time(1800)
    b.beat()
    a.joined(waiting)
    s.describe_classic()


@scenario
def classic_member_does_not_sync(s: Script) -> None:
    """A member that joins and does not sync is removed."""
    s.topic("foo", 4)
    a, b = stable_pair(s, rebalance_timeout_ms=1500)
    leader, follower = (a, b) if a.is_leader else (b, a)
    waiting = leader.send_join()
    follower.joined(follower.send_join())
    leader.joined(waiting)
    leader.sync({leader.member_id: {"foo": [0, 1, 2, 3]}})
    s.describe_classic()
    s.pass_time(1000)
    leader.beat()
    s.pass_time(800)
    leader.beat()
    follower.beat()
    s.describe_classic()


@scenario
def classic_static_members(s: Script) -> None:
    """A restarted static member takes its old place without a rebalance; its old self is fenced."""
    s.topic("foo", 4)
    a = s.classic("A", instance_id="one")
    a.joined(a.send_join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    b = s.classic("B", instance_id="two")
    waiting = b.send_join()
    a.beat()
    all_join(a)
    b.joined(waiting)
    all_sync({"A": {"foo": [0, 1]}, "B": {"foo": [2, 3]}}, a, b)
    again = s.classic("B2", instance_id="two")
    again.joined(again.send_join())
    again.sync()
    b.beat()
    b.commit({"foo": {2: 1}})
    s.describe_classic()
    leader = s.classic("A2", instance_id="one")
    leader.joined(leader.send_join())
    old_version = s.classic("A3", instance_id="one", version=8)
    old_version.joined(old_version.send_join())
    old_version.sync()
    again.leave(by_instance=True)
    old_version.beat()
    s.describe_classic()


@scenario
def classic_static_member_restarts_after_giving_up(s: Script) -> None:
    """It was to join again, so that another gets what it gave up; its new process is answered without a rebalance."""
    s.topic("foo", 4)
    a, b = stable_pair(s, static="one")
    waiting = a.send_join()  # a leader that joins again begins a rebalance
    b.beat()
    all_join(b)
    a.joined(waiting)
    all_sync({"A": {"foo": [0]}, "B": {"foo": [2, 3]}}, a, b)  # 1 is withheld until A has joined without it
    restart_static_member(s, b)


@scenario
def classic_static_leader_restarts_after_a_topic_grew(s: Script) -> None:
    """The new process leads, and is told neither to assign anything nor that there are more partitions."""
    s.topic("foo", 4)
    _, b = stable_pair(s, static="one")
    s.add_partitions("foo", 5)
    restart_static_member(s, b)


@scenario
def classic_old_versions(s: Script) -> None:
    """JoinGroup v0 to v3 joins without asking for a member id; v0 has no rebalance timeout."""
    s.topic("foo", 2)
    a = s.classic("A", version=0)
    a.joined(a.send_join())
    a.sync({a.member_id: {"foo": [0, 1]}})
    s.describe_classic(4)
    a.version = 3
    a.joined(a.send_join())
    s.describe_classic(5)
    a.leave()


@scenario
def classic_votes(s: Script) -> None:
    """The protocol is what most members like best among those that all know."""
    s.topic("foo", 2)
    a = s.classic("A", protocols=("range", "roundrobin", "sticky"))
    b = s.classic("B", protocols=("roundrobin", "range"))
    c = s.classic("C", protocols=("roundrobin", "range"))
    a.join()
    a.sync({a.member_id: {"foo": [0, 1]}})
    b.ask_member_id()
    c.ask_member_id()
    all_join(a, b, c)
    s.describe_classic()
