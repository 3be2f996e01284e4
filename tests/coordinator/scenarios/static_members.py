"""Members with an instance id, of the new protocol."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def static_member_bounces(s: Script) -> None:
    """A static member leaves with -2 and comes back under another id, with its partitions."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a = s.member("A", instance_id="one")
    b = s.member("B", instance_id="two")
    a.join()
    b.join()
    a.settle()
    b.settle()
    s.describe()
    a.leave(-2)
    s.describe()
    b.beat()
    again = s.member("A2", instance_id="one")
    again.join()
    again.settle()
    b.settle()
    s.describe()
    a.beat()
    again.leave(-2)
    again.epoch = 3
    again.beat()


@scenario
def static_member_is_doubled(s: Script) -> None:
    """A second process with the same instance id is refused until the first has left; the old id is fenced."""
    s.topic("foo", 2)
    s.configure(interval=0)
    a, b = s.member("A", instance_id="one"), s.member("B", instance_id="one")
    a.join()
    b.join()
    a.join()
    a.beat()
    stranger = s.member("C", instance_id="nobody")
    stranger.heartbeat("beats", 1)
    stranger.heartbeat("leaves", -2)
    a.leave(-2)
    b.join()
    a.beat()
    a.full(epoch=2)
    forgot = s.member("A", instance_id=None)
    forgot.heartbeat("beats without instance id", 2)
    a.leave(-1)
    b.leave(-1)
    s.describe()


@scenario
def static_member_changes_its_instance_id(s: Script) -> None:
    """The same member id joins under another instance id, and the one that it had is free."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A", instance_id="one"), s.member("B", instance_id="two")
    for member in (a, b, a, b):
        member.join() if member.epoch == 0 else member.settle()
    a.instance_id = "three"
    a.join()
    a.settle()
    s.describe()
    new = s.member("C", instance_id="one")
    new.join()
    for member in (a, b, new, a, b, new):
        member.settle()
    a.leave(-2)
    s.describe()
    back = s.member("D", instance_id="three")
    back.join()
    back.settle()
    new.leave(-1)
    for member in (back, b, back, b):
        member.settle()
    s.describe()


@scenario
def static_member_does_not_return(s: Script) -> None:
    """After -2 the session timeout runs on."""
    s.topic("foo", 2)
    s.configure(interval=0, session=1200, heartbeat=200)
    a, b = s.member("A", instance_id="one"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    a.leave(-2)
    for _ in range(4):
        s.pass_time(450)
        b.beat()
    s.describe()
    b.settle()


@scenario
def static_member_becomes_another(s: Script) -> None:
    """A static member returns with another subscription and another assignor."""
    s.topic("foo", 4)
    s.topic("bar", 2)
    s.configure(interval=0)
    a, b = s.member("A", instance_id="one"), s.member("B", instance_id="two")
    a.join()
    b.join()
    a.settle()
    b.settle()
    a.leave(-2)
    again = s.member("A2", instance_id="one", topics=("foo", "bar"), assignor="range")
    again.join()
    again.settle()
    b.settle()
    again.settle()
    s.describe()


@scenario
def static_member_returns_to_the_target_that_it_had(s: Script) -> None:
    """Another subscription bumps the epoch, but the new target is the inherited one: it is not written again."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A", instance_id="one"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    a.leave(-2)
    again = s.member("A2", instance_id="one", topics=("foo", "missing"))
    again.join()
    again.settle()
    s.describe()
