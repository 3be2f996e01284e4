"""What the assignors do, and when they run."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def range_assignor(s: Script) -> None:
    """Ranges follow the members' order; equal topics are co-partitioned."""
    s.topic("foo", 5)
    s.topic("bar", 5)
    s.configure(interval=0)
    members = [s.member(name, topics=("foo", "bar"), assignor="range") for name in ("C", "A", "B")]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.settle()
    s.describe()
    members[0].subscribe("foo")
    for _ in range(3):
        for member in members:
            member.settle()
    s.describe()
    static = s.member("Z", topics=("foo", "bar"), assignor="range", instance_id="i")
    static.join()
    for _ in range(3):
        for member in (*members, static):
            member.settle()
    s.describe()


@scenario
def assignors_are_voted_for(s: Script) -> None:
    """What most members want; on a tie what comes first in Kafka's table."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b, c = s.member("A", assignor="range"), s.member("B", assignor="uniform"), s.member("C")
    a.join()
    s.describe()
    b.join()
    s.describe()
    c.join()
    s.describe()
    c.heartbeat("wants range", c.epoch, server_assignor="range")
    s.describe()
    bad = s.member("D", assignor="nonsense")
    bad.join()


@scenario
def a_tied_vote_moves_the_group_epoch(s: Script) -> None:
    """With one vote for each of two assignors, each heartbeat of one of the two members moves the group epoch.

    Kafka counts in two tables, and the tie falls differently in them: one says which assignor the group has. In the
    other the vote of the member that heartbeats is counted again, which says which assignor it is to get.
    """
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A", assignor="range"), s.member("B", assignor="uniform")
    for member in (a, b, a, b):
        member.join() if member.epoch == 0 else member.settle()
    s.describe()
    for member in (a, a, b, b, a, b):
        member.beat()
        s.describe()
    c = s.member("C")
    c.join()
    for member in (a, b, c, a, b, c):
        member.settle()
    c.beat()
    c.heartbeat("breaks the tie", c.epoch, server_assignor="uniform")
    for member in (a, b, c, a, b, c):
        member.settle()
    s.describe()
    for member in (a, b, c):
        member.beat()
    s.describe()
    d = s.member("D", assignor="range")  # two votes for each: a tie that nobody takes for a change
    d.join()
    for _ in range(2):
        for member in (a, b, c, d):
            member.settle()
    s.describe()


@scenario
def a_tied_vote_moves_partitions(s: Script) -> None:
    """The same with an assignment interval: who computes the next assignment decides it, and partitions go to and fro.

    The group epoch has moved, the interval is not over yet, and the first heartbeat after it may be either member's.
    """
    s.topic("foo", 3)
    s.topic("bar", 3)
    s.configure(interval=1000)
    a = s.member("A", topics=("foo", "bar"), assignor="range")
    b = s.member("B", topics=("foo", "bar"), assignor="uniform")
    a.join()
    b.join()
    for first, second in ((a, b), (b, a), (a, b), (b, a)):
        s.pass_time(1100)
        first.settle()
        second.settle()
        a.beat()
        s.describe()


@scenario
def uniform_with_different_subscriptions(s: Script) -> None:
    """Heterogeneous subscriptions are balanced by moving partitions."""
    for name, partitions in (("foo", 6), ("bar", 4), ("baz", 3)):
        s.topic(name, partitions)
    s.configure(interval=0)
    members = [
        s.member("A", topics=("foo", "bar", "baz")),
        s.member("B", topics=("foo",)),
        s.member("C", topics=("bar", "baz")),
        s.member("D", topics=("foo", "baz")),
    ]
    for member in members:
        member.join()
        member.settle()
    for _ in range(4):
        for member in members:
            member.settle()
    s.describe()
    members[1].leave()
    for _ in range(3):
        for member in (members[0], *members[2:]):
            member.settle()
    s.describe()


@scenario
def many_members_few_partitions(s: Script) -> None:
    """More members than partitions, coming and going; who gets something depends on Java's hash order."""
    s.topic("foo", 5)
    s.configure(interval=0)
    members = [s.member(f"m-{number}") for number in range(9)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.settle()
    s.describe()
    for member in members[::3]:
        member.leave()
    left = [member for number, member in enumerate(members) if number % 3]
    for _ in range(3):
        for member in left:
            member.settle()
    s.describe()


@scenario
def two_topics_uneven(s: Script) -> None:
    """Homogeneous subscriptions to several topics of different sizes, with a quota that does not divide."""
    s.topic("foo", 7)
    s.topic("bar", 2)
    s.topic("baz", 5)
    s.configure(interval=0)
    members = [s.member(name, topics=("foo", "bar", "baz")) for name in ("x", "y", "z")]
    for member in members:
        member.join()
        for other in members:
            if other.epoch:
                other.settle(2)
    for _ in range(3):
        for member in members:
            member.settle()
    s.describe()


@scenario
def assignment_interval(s: Script) -> None:
    """Assignments are computed at most once in an interval (KIP-1263): joiners wait with what there was."""
    s.topic("foo", 6)
    s.configure(interval=1500)
    a, b, c = (s.member(name) for name in "ABC")
    a.join()
    b.join()
    c.join()
    s.describe()
    a.beat()
    b.beat()
    s.pass_time(1700)
    b.beat()
    s.describe()
    a.settle()
    c.settle()
    b.settle()
    s.describe()
    c.leave()
    a.beat()
    s.describe()
    s.pass_time(1700)
    a.beat()
    b.beat()
    s.describe()
