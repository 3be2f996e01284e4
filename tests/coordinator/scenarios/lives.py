"""Members of the new protocol come and go, acknowledge late, are lost."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def join_and_leave(s: Script) -> None:
    """Three members come, and go again."""
    s.topic("foo", 6)
    s.configure(interval=0)
    a, b, c = (s.member(name) for name in "ABC")
    a.join()
    a.beat()
    s.describe()
    b.join()
    a.beat()
    s.describe()
    a.ack({"foo": [0, 1, 2]})
    b.beat()
    c.join()
    for member in (a, b, c, a, b, c):
        member.settle()
    s.describe()
    b.leave()
    a.settle()
    c.settle()
    s.describe()
    a.leave()
    c.leave()
    s.describe()
    s.list()


@scenario
def acknowledging_late(s: Script) -> None:
    """A member keeps a partition for a while: nobody gets it, plain heartbeats change nothing."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    b.beat()
    a.beat()
    a.beat()
    a.ack({"foo": [0, 1, 2, 3]})
    b.beat()
    a.ack({"foo": [0, 1, 2]})
    b.beat()
    s.describe()
    a.ack({"foo": [0, 1]})
    b.beat()
    s.describe()


@scenario
def releasing_more_than_asked(s: Script) -> None:
    """A non-null list of owned partitions releases everything that it leaves out."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.ack({})
    b.beat()
    a.beat()
    s.describe()


@scenario
def session_expires(s: Script) -> None:
    """A member crashes: after its session timeout the others get its partitions."""
    s.topic("foo", 4)
    s.configure(interval=0, session=1500, heartbeat=200)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    s.describe()
    for _ in range(4):
        s.pass_time(500)
        b.beat()
    s.describe()
    b.settle()
    a.beat()
    a.join()
    s.describe()


@scenario
def rebalance_timeout(s: Script) -> None:
    """A member that does not give up its partitions in time is removed, heartbeats or not."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a, b = s.member("A", rebalance_timeout_ms=1000), s.member("B")
    a.join()
    b.join()
    a.beat()
    s.pass_time(600)
    a.beat()
    b.beat()
    s.pass_time(800)
    a.beat()
    b.settle()
    s.describe()


@scenario
def lost_responses(s: Script) -> None:
    """Answers get lost: the first join's, an assignment's, a revocation's."""
    s.topic("foo", 6)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    a.join()
    b.join()
    a.beat()  # lost: told to revoke
    a.beat()
    a.full({"foo": [0, 1, 2, 3, 4, 5]}, epoch=2)
    a.full({"foo": [0, 1, 2]}, epoch=2)
    a.full({"foo": [0, 1, 2]}, epoch=2)  # the answer with the new epoch was lost
    b.beat()  # lost: got partitions
    b.beat()
    b.full({})
    s.describe()


@scenario
def unreleased_partitions(s: Script) -> None:
    """Two members wait for a third one that is slow."""
    s.topic("foo", 9)
    s.configure(interval=0)
    a, b, c = (s.member(name) for name in "ABC")
    a.join()
    b.join()
    c.join()
    s.describe()
    b.beat()
    c.beat()
    a.beat()
    b.beat()
    c.beat()
    a.ack({"foo": [0, 1, 2]})
    b.beat()
    c.beat()
    s.describe()
    c.leave()
    b.beat()
    a.beat()
    s.describe()


@scenario
def epochs_are_fenced(s: Script) -> None:
    """Too old, too new, unknown, and the previous epoch with and without a list of owned partitions."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.heartbeat("beats too early", 1)
    a.join()
    a.heartbeat("comes from the future", 99)
    a.heartbeat("comes from the past", 1)
    b.join()
    a.settle()
    b.settle()
    s.describe()
    a.heartbeat("repeats its previous epoch", 2)
    a.heartbeat("repeats it and owns", 2, topic_partitions=a._owned({"foo": [0, 1]}))
    a.heartbeat("repeats it and owns too much", 2, topic_partitions=a._owned({"foo": [0, 1, 2]}))
    a.full({"foo": [0]}, epoch=2)
    unknown = s.member("unknown")
    unknown.heartbeat("beats", 3)
    unknown.leave()
    b.heartbeat("leaves for a while without instance id", -2)
    a.join()
    s.describe()


@scenario
def client_changes_its_face(s: Script) -> None:
    """Another rack, timeout or client id changes the member, and nothing else."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a = s.member("A", rack_id="r1")
    a.join()
    a.heartbeat("moves", a.epoch, rack_id="r2")
    a.heartbeat("has more time", a.epoch, rebalance_timeout_ms=50_000)
    s.describe()
    a.name = "other-client"
    a.beat()
    s.describe()
