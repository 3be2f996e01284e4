"""The way back to a classic group."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.scenarios.steps import all_join, all_sync
from tests.coordinator.script import Classic, Member, Script


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


def _static_and_classic(s: Script) -> tuple[Member, Classic]:
    """A static member of the new protocol has all partitions when a classic one comes."""
    s.topic("foo", 4)
    s.configure(interval=0)
    n = s.member("N", instance_id="one")
    n.join()
    n.ack()
    c = s.classic("C")
    c.join()
    c.sync()
    return n, c


def _comes_back_classic(s: Script, n: Member) -> Classic:
    """Its next process speaks the classic protocol."""
    n.leave(-2)
    back = s.classic("N2", instance_id="one")
    back.joined(back.send_join())
    return back


@scenario
def downgrade_by_static_replacement(s: Script) -> None:
    """A static member comes back with the classic protocol while all others are classic."""
    n, c = _static_and_classic(s)
    n.settle()
    c.beat()
    c.join(owned={})
    c.sync()
    s.describe()
    back = _comes_back_classic(s, n)
    s.describe()
    s.describe_classic()
    c.beat()
    back.beat()


@scenario
def downgrade_in_place_before_another_has_its_share(s: Script) -> None:
    """As before, but a classic member has not been told of its share yet: no rebalance comes in which it would be."""
    n, c = _static_and_classic(s)
    back = _comes_back_classic(s, n)
    back.sync()
    s.describe_classic()
    c.beat()
    back.beat()


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
    c.join()
    s.list()
    c.sync({c.member_id: {"foo": [0, 1]}})
    s.offsets()
    c.leave()
    s.list()
    a.join()
    s.describe()
    s.offsets()


@scenario
def stranger_comes_to_an_empty_group(s: Script) -> None:
    """A classic member with an unknown id at an empty consumer group is refused, and the group is forgotten."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a = s.member("A")
    a.join()
    a.leave()
    stranger = s.classic("X", member_id="nobody")
    stranger.joined(stranger.send_join())
    a.beat()
    a.join()
    s.describe()
