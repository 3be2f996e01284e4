"""Groups with members of both protocols, and the way from one to the other."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.scenarios.steps import stable_pair
from tests.coordinator.script import Classic, Script


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


def convert_in_place_and_grow(s: Script) -> None:
    """A static member takes the place of its classic self, and another member joins when it has settled."""
    new = s.member("N", instance_id="one")
    new.join()
    new.settle(2)
    s.describe()
    other = s.member("M")
    other.join()
    new.settle()
    other.settle()
    s.describe()


@scenario
def upgrade_in_place_after_a_topic_grew(s: Script) -> None:
    """A static member converts its group after its topic grew: nobody gets the new partition until the next change."""
    s.topic("foo", 2)
    s.configure(interval=0)
    classic = s.classic("A", instance_id="one")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0, 1]}})
    s.add_partitions("foo", 3)
    convert_in_place_and_grow(s)


@scenario
def upgrade_in_place_after_a_member_left(s: Script) -> None:
    """A static member converts its group in the rebalance after another has left: nobody gets what that one had."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s, static="one")
    b.leave()
    a.beat()
    convert_in_place_and_grow(s)


@scenario
def upgrade_beside_the_classic_self(s: Script) -> None:
    """A client becomes a member of the new protocol first, and its classic self leaves then: no group rebalance."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s, protocols=("cooperative-sticky",))
    new = s.member("N")
    new.join()
    s.describe()
    a.leave()
    s.describe()
    for _ in range(3):
        new.settle()
        if b.beat() == "REBALANCE_IN_PROGRESS":
            b.join()
            b.sync()
    a.leave()
    s.describe()
    b.leave()
    new.settle()
    s.describe()


@scenario
def static_upgrade_beside_others(s: Script) -> None:
    """A static client does not leave at all: its new self takes the place of the classic one, and what that was
    assigned. A LeaveGroup of the old self is refused."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = stable_pair(s, static="one", protocols=("cooperative-sticky",))
    new = s.member("N", instance_id="one")
    new.join()
    s.describe()
    a.beat()
    a.leave()
    for _ in range(3):
        new.settle()
        if b.beat() == "REBALANCE_IN_PROGRESS":
            b.join()
            b.sync()
    s.describe()


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
    c.commit({"foo": dict.fromkeys(c.assigned.get("foo", []), 5)})
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
def classic_join_timeout_in_consumer_group(s: Script) -> None:
    """A classic member of a consumer group that does not join, or not sync, when it is told to is removed."""
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


def _cut_short_and_alone(s: Script) -> Classic:
    """A client such as kafka-go's is alone in its group."""
    s.topic("foo", 2)
    s.configure(interval=0)
    classic = s.classic("A", embedded_version=1, cut_short=True)
    classic.join()
    classic.sync({classic.member_id: {"foo": [0, 1]}})
    return classic


@scenario
def subscriptions_that_are_cut_short(s: Script) -> None:
    """Kafka can't read what kafka-go subscribes to: not to convert its group, nor to let it into a consumer group."""
    classic = _cut_short_and_alone(s)
    new = s.member("N")
    new.join()
    s.describe_classic()
    classic.beat()
    classic.leave()
    new.join()
    s.describe()
    late = s.classic("B", embedded_version=1, cut_short=True)
    late.join()
    late.join()
    s.describe()


@scenario
def a_refused_conversion_fails_join_groups_that_wait(s: Script) -> None:
    """As one that succeeds does, and every time it is tried."""
    classic = _cut_short_and_alone(s)
    late = s.classic("B")
    late.ask_member_id()
    new = s.member("N")
    for _ in range(2):
        waiting = late.send_join()
        classic.beat()
        new.join()
        late.joined(waiting)
    s.describe_classic()
