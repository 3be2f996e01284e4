"""Scenarios with classic members: classic groups, mixed groups, upgrade and downgrade."""

from tests.coordinator.scenarios import scenario
from tests.coordinator.script import Classic, Script


def all_join(*members: Classic) -> None:
    """All members join (with their ids), and the answers are taken when all have come."""
    pending = [(member, member.send_join()) for member in members]
    for member, join in pending:
        member.joined(join)


def all_sync(assignments: dict[str, dict[str, list[int]]], *members: Classic) -> None:
    """All members sync; the leader brings assignments, which are given by name."""
    by_id = {member.member_id: assignments.get(member.name, {}) for member in members}
    ordered = sorted(members, key=lambda member: member.is_leader)
    pending = [(member, member.send_sync(by_id if member.is_leader else None)) for member in ordered]
    for member, sync in pending:
        member.synced(sync)


def stable_pair(s: Script, **options: object) -> tuple[Classic, Classic]:
    """A stable classic group of two, A with 0 and 1, B with 2 and 3."""
    a, b = s.classic("A", **options), s.classic("B", **options)
    a.join()
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    b.ask_member_id()
    waiting = b.send_join()
    a.beat()
    all_join(a)
    b.joined(waiting)
    all_sync({"A": {"foo": [0, 1]}, "B": {"foo": [2, 3]}}, a, b)
    return a, b


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
    a, b = stable_pair(s)
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
    again = leader.send_join()
    leader.joined(again)
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


@scenario
def consumer_group_upgrade(s: Script) -> None:
    """A new-protocol member joins a live classic group: it becomes a consumer group, everybody keeps their part."""
    s.topic("foo", 6)
    s.configure(interval=0)
    a, b = stable_pair(s)
    new = s.member("N")
    new.join()
    s.describe()
    s.describe_classic()
    s.list()
    a.beat()
    b.beat()
    a.sync()
    a.join(owned={})
    a.sync()
    b.join(owned={})
    b.sync()
    new.settle()
    new.beat()
    a.beat()
    b.beat()
    s.describe()
    a.join(owned={})
    a.sync()
    b.join(owned={})
    b.sync()
    new.settle()
    s.describe()
    a.commit({"foo": {0: 1}})
    a.commit({"foo": {0: 2}}, epoch=a.generation - 1)
    a.commit({"foo": {0: 2}}, epoch=a.generation + 1)
    s.offsets()


@scenario
def cooperative_upgrade(s: Script) -> None:
    """The same with members that keep their partitions while they join."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s, protocols=("cooperative-sticky",))
    new = s.member("N")
    new.join()
    for _ in range(3):
        for classic in (a, b):
            if classic.beat() == "REBALANCE_IN_PROGRESS":
                classic.join()
                classic.sync()
        new.settle()
    s.describe()
    new.leave()
    s.describe()
    s.describe_classic()
    a.beat()


@scenario
def upgrade_during_a_rebalance(s: Script) -> None:
    """JoinGroups that wait are answered REBALANCE_IN_PROGRESS when the group is converted."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s)
    leader = a if a.is_leader else b
    other = b if a.is_leader else a
    waiting = leader.send_join()
    new = s.member("N")
    new.join()
    leader.joined(waiting)
    s.describe()
    leader.join(owned={})
    leader.sync()
    other.beat()
    new.settle()
    s.describe()


@scenario
def upgrade_while_syncing(s: Script) -> None:
    """SyncGroups that wait for the leader are answered REBALANCE_IN_PROGRESS too."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s)
    leader, follower = (a, b) if a.is_leader else (b, a)
    waiting = leader.send_join()
    follower.joined(follower.send_join())
    leader.joined(waiting)
    syncing = follower.send_sync()
    new = s.member("N")
    new.join()
    follower.synced(syncing)
    leader.sync({leader.member_id: {"foo": [0]}})
    s.describe()


@scenario
def upgrade_of_a_fresh_group(s: Script) -> None:
    """A classic group whose first member has only been given an id is empty: it gives way."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a = s.classic("A")
    a.ask_member_id()
    s.list()
    new = s.member("N")
    new.join()
    s.describe()
    a.join(owned={})
    a.sync()
    s.describe()


@scenario
def upgrade_is_refused(s: Script) -> None:
    """Groups that are no consumers, or whose assignor keeps user data, stay classic."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a = s.classic("A", protocol_type="connect")
    a.join()
    a.sync({a.member_id: {"foo": [0]}})
    new = s.member("N")
    new.join()
    s.describe_classic()
    a.leave()
    b = s.classic("B", user_data=b"mine")
    b.join()
    b.sync({b.member_id: {"foo": [0, 1]}})
    new.join()
    s.describe_classic()


@scenario
def classic_member_joins_consumer_group(s: Script) -> None:
    """A classic member joins, waits for its partitions, gets them, and leaves."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a = s.member("A")
    a.join()
    a.ack()
    c = s.classic("C")
    c.join()
    c.sync()
    s.describe()
    c.beat()
    a.settle()
    c.beat()
    c.join(owned={})
    c.sync()
    c.beat()
    c.commit({"foo": {number: 5 for number in c.assigned.get("foo", [])}})
    c.sync(generation_id=c.generation - 1)
    c.beat(generation_id=c.generation + 1)
    s.describe()
    stranger = s.classic("X", member_id="nobody", generation=3)
    stranger.beat()
    stranger.sync()
    stranger.leave()
    wrong = s.classic("W", protocols=("other",))
    wrong.join()
    wrong_type = s.classic("T", protocol_type="connect")
    wrong_type.joined(wrong_type.send_join())
    new_as_classic = s.classic("A", member_id=a.member_id, generation=a.epoch)
    new_as_classic.beat()
    new_as_classic.sync()
    c.leave()
    a.settle()
    s.describe()


@scenario
def downgrade_by_leaving(s: Script) -> None:
    """The last new-protocol member leaves: the group is classic again, and rebalances."""
    s.topic("foo", 4)
    s.configure(interval=0)
    n = s.member("N")
    n.join()
    n.ack()
    a, b = s.classic("A"), s.classic("B")
    for classic in (a, b):
        classic.join()
        classic.sync()
    for _ in range(3):
        n.settle()
        for classic in (a, b):
            if classic.beat() == "REBALANCE_IN_PROGRESS":
                classic.join(owned={})
                classic.sync()
    s.describe()
    n.leave()
    s.describe()
    s.describe_classic()
    a.beat()
    b.beat()
    all_join(a, b)
    all_sync({"A": {"foo": [0, 1]}, "B": {"foo": [2, 3]}}, a, b)
    s.describe_classic()
    n.beat()


@scenario
def downgrade_by_classic_leave(s: Script) -> None:
    """LeaveGroup removes members of the new protocol too, by instance id if need be."""
    s.topic("foo", 4)
    s.configure(interval=0)
    n = s.member("N", instance_id="one")
    m = s.member("M")
    n.join()
    m.join()
    c = s.classic("C")
    c.join()
    c.sync()
    as_classic = s.classic("M", member_id=m.member_id)
    as_classic.leave()
    s.describe()
    by_instance = s.classic("N", instance_id="one")
    by_instance.leave(by_instance=True)
    s.describe()
    s.describe_classic()


@scenario
def downgrade_by_expiry(s: Script) -> None:
    """The last new-protocol member crashes."""
    s.topic("foo", 4)
    s.configure(interval=0, session=1500, heartbeat=200)
    n = s.member("N")
    n.join()
    n.ack()
    c = s.classic("C")
    c.join()
    c.sync()
    n.settle()
    for _ in range(4):
        s.pass_time(500)
        c.beat()
    s.describe()
    s.describe_classic()
    all_join(c)
    all_sync({"C": {"foo": [0, 1, 2, 3]}}, c)


@scenario
def downgrade_by_static_replacement(s: Script) -> None:
    """A static member comes back with the classic protocol while all others are classic."""
    s.topic("foo", 4)
    s.configure(interval=0)
    n = s.member("N", instance_id="one")
    n.join()
    n.ack()
    c = s.classic("C")
    c.join()
    c.sync()
    n.settle()
    c.beat()
    c.join(owned={})
    c.sync()
    s.describe()
    n.leave(-2)
    back = s.classic("N2", instance_id="one")
    waiting = back.send_join()
    back.joined(waiting)
    s.describe()
    s.describe_classic()
    c.beat()
    back.beat()


@scenario
def upgrade_by_static_replacement(s: Script) -> None:
    """A static classic member is replaced by one of the new protocol, without leaving first."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a = s.classic("A", instance_id="one")
    a.joined(a.send_join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    n = s.member("N", instance_id="one")
    n.join()
    s.describe()
    n.ack()
    a.beat()
    a.sync()
    a.joined(a.send_join())
    s.describe()


@scenario
def member_changes_protocol_in_place(s: Script) -> None:
    """A new-protocol member sends a JoinGroup under its own id, and a classic one a heartbeat with epoch 0."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    classic = s.classic("A", member_id=a.member_id, generation=a.epoch)
    classic.assigned = dict(a.assigned)
    classic.joined(classic.send_join())
    classic.sync()
    s.describe()
    a.beat()
    a.join()
    s.describe()


@scenario
def empty_groups_change_type(s: Script) -> None:
    """An empty consumer group is taken by a classic member, an empty classic group by a new one; offsets stay."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a = s.member("A")
    a.join()
    a.commit({"foo": {0: 7}})
    a.leave()
    s.list()
    c = s.classic("C")
    unknown = s.classic("X", member_id="nobody")
    c.join()
    s.list()
    c.sync({c.member_id: {"foo": [0, 1]}})
    s.offsets()
    c.leave()
    s.list()
    a.join()
    s.describe()
    s.offsets()
    a.leave()
    unknown.joined(unknown.send_join())
    a.beat()
    a.join()
    s.describe()


@scenario
def classic_join_timeout_in_consumer_group(s: Script) -> None:
    """A classic member of a consumer group that is told to join and does not is removed; so is one that does not sync."""
    s.topic("foo", 4)
    s.configure(interval=0)
    n = s.member("N")
    n.join()
    n.ack()
    c = s.classic("C", rebalance_timeout_ms=1200)
    c.join()
    c.sync()
    d = s.classic("D", rebalance_timeout_ms=1200)
    d.join()
    s.describe()
    c.beat()
    s.pass_time(700)
    c.beat()
    n.beat()
    s.pass_time(900)
    c.beat()
    n.settle()
    s.describe()
