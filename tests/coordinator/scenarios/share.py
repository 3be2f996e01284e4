"""Share groups: KIP-932's table as members that come and go, fencing, topics that change, and collisions of types."""

from tests.coordinator.core_backend import MAX_SIZE
from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


def ready(s: Script, **topics: int) -> None:
    """Topics, and assignments as soon as they are due."""
    for name, partitions in topics.items():
        s.topic(name, partitions)
    s.configure(interval=0, share_interval=0)


@scenario
def share_group_lives(s: Script) -> None:
    """KIP-932's table: the first answer is empty, partitions come when their state is initialized, and are shared."""
    ready(s, foo=1, bar=2)
    members = [s.sharing(f"M{number}") for number in range(1, 9)]
    members[0].join()
    s.describe_share()
    members[0].beat()
    members[1].join()
    for member in members[:2]:
        member.beat()
    s.describe_share()
    s.add_partitions("foo", 4)
    members[0].beat_late()
    for member in members[:2] * 2:
        member.beat()
    for count in (3, 4, 8):
        for member in members[:count]:
            if not member.epoch:
                member.join()
        for member in members[:count]:
            member.beat()
        s.describe_share()
    members[0].subscribe("foo", "bar")
    for member in members * 2:
        member.beat()
    s.describe_share()
    s.list(types=("share",))
    s.list(types=("consumer",))
    for member in members:
        if member is not members[1]:
            member.leave()
    members[1].beat()
    s.describe_share()
    members[1].leave()
    s.describe_share()
    s.list(states=("empty",), types=("SHARE",))


@scenario
def share_epochs_are_fenced(s: Script) -> None:
    """The previous epoch is accepted, older and newer ones are not; a member joins again under its id."""
    ready(s, foo=3)
    a, b = s.sharing("A"), s.sharing("B")
    a.join()
    a.beat()
    old = a.epoch
    b.join()
    a.beat()
    a.heartbeat("repeats its previous epoch", old)
    a.heartbeat("is a step too old", old - 1)
    a.heartbeat("is from the future", a.epoch + 1)
    a.full()
    a.join()
    s.sharing("C").heartbeat("was never here", a.epoch)
    s.sharing("C").leave()
    a.leave()
    a.beat()
    b.beat()
    s.describe_share()


@scenario
def share_requests_are_checked(s: Script) -> None:
    """What is refused before any group is looked at, and what a group that is not there answers."""
    ready(s, foo=1)
    a = s.sharing("A")
    nameless, long = s.sharing(""), s.sharing("x" * 37)
    nameless.heartbeat("has no id", 0, **a._full())
    long.heartbeat("has too long an id", 0, **long._full())
    a.heartbeat("has a blank rack", 0, **a._full() | {"rack_id": ""})
    a.heartbeat("subscribes to nothing", 0)
    a.heartbeat("subscribes to no topic", 0, subscribed_topic_names=())
    a.heartbeat("is at epoch -2", -2)
    a.heartbeat("beats in no group", 1)
    a.heartbeat("leaves what is not there", -1)
    s.describe_share()
    a.join()
    a.heartbeat("unsubscribes", a.epoch, subscribed_topic_names=())
    a.beat()
    s.describe_share()


@scenario
def share_group_is_full(s: Script) -> None:
    """A member too many is refused; one that leaves makes room, and one that comes back needs none."""
    ready(s, foo=2)
    members = [s.sharing(f"m{number:02}") for number in range(MAX_SIZE)]
    members[0].join()
    for member in members[1:]:
        member.heartbeat("joins", 0, **member._full())
    late = s.sharing("late")
    late.join()
    members[3].join()
    members[0].leave()
    late.join()
    for member in members[1:]:
        member.beat()
    s.describe_share()


@scenario
def share_topics_change(s: Script) -> None:
    """A topic comes late, grows, goes, and comes back; one that nobody subscribes to any more stays in the target."""
    ready(s, foo=2)
    a, b = s.sharing("A", topics=("foo", "bar")), s.sharing("B")
    a.join()
    b.join()
    for member in (a, b):
        member.beat()
    s.topic("bar", 2)
    a.beat_late()
    for member in (a, b, a):
        member.beat()
    a.subscribe("foo")
    for member in (a, b):
        member.beat()
    s.add_partitions("foo", 5)
    b.beat_late()
    for member in (a, b, a, b):
        member.beat()
    s.describe_share()
    s.delete_topic("foo")
    s.pass_time(400)
    for member in (a, b):
        member.beat()
    s.topic("foo", 3)
    a.beat_late()
    for member in (a, b, a):
        member.beat()
    s.describe_share()


@scenario
def share_subscriptions_differ(s: Script) -> None:
    """Each topic is shared among its own subscribers."""
    ready(s, foo=5, bar=3, baz=1)
    members = [
        s.sharing("A", topics=("foo", "bar")),
        s.sharing("B", topics=("bar", "baz")),
        s.sharing("C", topics=("foo",)),
        s.sharing("D", topics=("baz", "bar", "foo"), rack_id="rack-d"),
    ]
    for member in members:
        member.join()
        member.beat()
    for member in members:
        member.beat()
    s.describe_share()
    members[0].subscribe("baz")
    members[3].heartbeat("moves", members[3].epoch, rack_id="rack-e")
    members[1].leave()
    for member in (members[0], members[2], members[3]):
        member.beat()
    s.describe_share()


@scenario
def share_assignments_wait(s: Script) -> None:
    """Within the assignment interval members join without partitions, and the epoch waits with them."""
    s.topic("foo", 3)
    s.configure(interval=0, share_interval=3_000, share_heartbeat=700)
    a, b = s.sharing("A"), s.sharing("B")
    a.join()
    a.beat()
    b.join()
    b.beat()
    s.describe_share()
    s.pass_time(3_000)
    b.beat()
    a.beat()
    a.leave()
    b.beat()
    b.leave()
    a.join()
    s.describe_share()


@scenario
def share_sessions_expire(s: Script) -> None:
    """A member that is silent is removed, and the others get its partitions with their next heartbeats."""
    ready(s, foo=3)
    s.configure(interval=0, share_interval=0, share_session=2_000)
    a, b = s.sharing("A"), s.sharing("B")
    a.join()
    b.join()
    for member in (a, b):
        member.beat()
    for _ in range(3):
        s.pass_time(1_000)
        b.beat()
    s.describe_share()
    a.beat()
    a.join()
    s.describe_share()


@scenario
def share_group_is_deleted(s: Script) -> None:
    """Only without members, with its records; then the id is free for any type."""
    ready(s, foo=2)
    a = s.sharing("A")
    a.join()
    a.beat()
    s.delete_group()
    a.leave()
    s.delete_group()
    s.pass_time(400)
    s.describe_share()
    s.delete_group()
    new = s.member("new")
    new.join()
    a.join()
    new.leave()
    a.join()
    s.delete_group()
    a.join()
    a.beat()
    s.describe_share()


@scenario
def share_group_collides(s: Script) -> None:
    """Nothing makes a share group of a group of another type, or the other way round, even if it is empty."""
    ready(s, foo=2)
    share = s.sharing("S")
    share.join()
    share.beat()
    for _ in range(2):
        s.member("new").join()
        s.member("new").heartbeat("beats", 1)
        s.member("new").leave()
        classic = s.classic("classic")
        classic.join()
        classic.join(member_id="made-up")
        classic.beat()
        classic.sync()
        classic.leave()
        s.describe()
        s.describe_classic()
        s.describe_classic(5)
        s.commit("nobody", {"foo": {0: 5}})
        s.commit("nobody", {"foo": {0: 5}}, version=8)
        s.commit("member", {"foo": {0: 5}}, epoch=share.epoch, member_id="S")
        s.offsets()
        s.offsets({"foo": [0, 1]})
        s.offsets({"foo": [0]}, member=("S", share.epoch))
        s.delete_offsets({"foo": [0]})
        if not share.assigned:
            break
        share.leave()
        share.assigned = {}
    s.describe_share()


@scenario
def share_member_comes_to_other_groups(s: Script) -> None:
    """A share member is refused by classic groups, and by groups that only store offsets."""
    ready(s, foo=2)
    share = s.sharing("S")
    s.commit("nobody", {"foo": {0: 5}})
    share.join()
    classic = s.classic("classic")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0, 1]}})
    share.join()
    share.heartbeat("beats", 1)
    share.leave()
    s.describe_share()
    classic.leave()
    share.join()
