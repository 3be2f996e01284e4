"""The scenarios that Kafka and the embedded coordinator must play in the same way, step by step."""

from collections.abc import Callable

from tests.coordinator.script import Script

Scenario = Callable[[Script], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


# Members of the new protocol


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
def subscription_changes(s: Script) -> None:
    """Members subscribe to other topics; one subscribes to none."""
    s.topic("foo", 4)
    s.topic("bar", 3)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    a.subscribe("foo", "bar")
    a.settle()
    b.settle()
    s.describe()
    b.subscribe("bar")
    b.settle()
    a.settle()
    b.settle()
    s.describe()
    b.subscribe()
    s.describe()
    b.settle()
    a.settle()
    s.describe()
    b.subscribe("missing")
    b.settle()
    s.describe()


@scenario
def topics_come_later(s: Script) -> None:
    """A topic is created after the group subscribed to it, and then grows."""
    s.configure(interval=0)
    a, b = s.member("A", topics=("foo", "bar")), s.member("B", topics=("foo", "bar"))
    a.join()
    b.join()
    s.describe()
    s.topic("foo", 2)
    a.settle()
    b.settle()
    s.describe()
    s.add_partitions("foo", 5)
    b.settle()
    a.settle()
    b.settle()
    s.describe()
    s.topic("bar", 3)
    a.settle()
    b.settle()
    a.settle()
    s.describe()


@scenario
def topic_deleted_and_recreated(s: Script) -> None:
    """A recreated topic is another topic, although it has the same name; its offsets are gone."""
    s.topic("foo", 3)
    s.topic("bar", 2)
    s.configure(interval=0)
    a = s.member("A", topics=("foo", "bar"))
    a.join()
    a.ack()
    a.commit({"foo": {0: 10}, "bar": {1: 20}})
    s.offsets()
    s.delete_topic("foo")
    s.offsets()
    a.beat()
    s.describe()
    a.ack({"bar": [0, 1]})
    s.topic("foo", 3)
    a.beat()
    a.ack()
    s.describe()
    s.offsets({"foo": [0, 1], "bar": [1]})


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
def commits_are_fenced(s: Script) -> None:
    """Commits with the current, an older, a newer epoch (KIP-1251), by strangers, and in old versions."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    s.commit("nobody", {"foo": {0: 1}}, epoch=5)
    s.commit("nobody", {"foo": {0: 1}}, epoch=5, version=8)
    a.join()
    a.commit({"foo": {0: 5}})
    a.commit({"foo": {0: 6}}, version=8)
    a.commit({"foo": {0: 7}}, epoch=a.epoch + 1)
    a.commit({"foo": {0: 7}}, epoch=1)
    a.commit({"foo": {0: 8}}, version=10)
    a.commit({"foo": {9: 8}, "missing": {0: 1}})
    s.commit("nobody", {"foo": {0: 1}})
    s.commit("stranger", {"foo": {0: 1}}, epoch=a.epoch, member_id="who")
    b.join()
    a.settle()
    b.settle()
    s.describe()
    a.commit({"foo": {0: 9}}, epoch=2)
    a.commit({"foo": {3: 9}}, epoch=2)
    a.commit({"foo": {0: 10, 3: 9}}, epoch=2)
    b.commit({"foo": {number: 11 for number in b.assigned.get("foo", [])}}, epoch=2)
    s.offsets()
    s.offsets({"foo": [0, 3]}, member=(a.member_id, a.epoch))
    s.offsets({"foo": [0, 3]}, member=(a.member_id, a.epoch - 1))
    s.offsets({"foo": [0, 3]}, member=("who", a.epoch))
    s.offsets({"foo": [0, 3]}, version=8)
    s.offsets({"foo": [0]}, version=10)
    s.commit("A", {"foo": {0: 3}}, epoch=a.epoch, member_id=a.member_id, metadata="x" * 5000)


@scenario
def commits_while_revoking(s: Script) -> None:
    """A member still commits for partitions that it is giving up."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.beat()
    a.commit({"foo": {0: 1, 3: 1}})
    a.ack()
    a.commit({"foo": {0: 2}}, epoch=2)
    a.commit({"foo": {3: 2}}, epoch=2)
    s.offsets()


@scenario
def offsets_are_deleted(s: Script) -> None:
    """Offsets of subscribed topics stay; those of others and of empty groups go."""
    s.topic("foo", 2)
    s.topic("bar", 2)
    s.configure(interval=0)
    s.delete_offsets({"foo": [0]})
    s.commit("admin", {"foo": {0: 1}, "bar": {0: 1, 1: 2}})
    s.list()
    s.describe_classic()
    a = s.member("A")
    a.join()
    s.delete_offsets({"foo": [0], "bar": [0], "missing": [0]})
    s.offsets()
    s.delete_group()
    a.leave()
    s.list()
    s.delete_offsets({"foo": [0]})
    s.offsets()
    s.delete_group()
    s.delete_group()
    s.list()
    s.offsets()
    s.describe()


@scenario
def groups_are_listed(s: Script) -> None:
    """By state and type, without looking at case."""
    s.topic("foo", 1)
    s.configure(interval=0)
    a = s.member("A")
    a.join()
    s.list(states=("stable",))
    s.list(states=("Empty",))
    s.list(types=("CONSUMER",))
    s.list(types=("classic",))
    s.list(types=("nonsense",))
    s.list(states=("STABLE ", "Assigning"), types=("consumer", "classic"))
    a.leave()
    s.list(states=("Empty",))
    s.describe_classic()
    s.describe_classic(5)


@scenario
def requests_are_checked(s: Script) -> None:
    """What is refused before any group is looked at, in Kafka's order."""
    s.topic("foo", 1)
    a = s.member("A")
    names = a._names()
    full = a._full({})
    nameless = s.member("", version=1)
    nameless.member_id = ""
    nameless.heartbeat("has no id", 0, **full)
    a.heartbeat("has an empty instance id", 0, **full) if a.instance_id else None
    a.instance_id = " "
    a.heartbeat("has a blank instance id", 0, **full)
    a.instance_id = None
    a.heartbeat("has a blank rack", 0, **full | {"rack_id": ""})
    a.heartbeat("says no timeout", 0, **full | {"rebalance_timeout_ms": -1})
    a.heartbeat("says no owned partitions", 0, **full | {"topic_partitions": None})
    a.heartbeat("owns already", 0, **full | {"topic_partitions": a._owned({"foo": [0]})})
    a.heartbeat("subscribes to nothing", 0, **full | {"subscribed_topic_names": None})
    a.heartbeat("is at epoch -3", -3)
    a.heartbeat("leaves for a while", -2)
    a.heartbeat("wants a strange assignor", 0, **full | {"server_assignor": "x"})
    a.heartbeat("wants it and is wrong otherwise", 0, **full | {"server_assignor": "x", "rebalance_timeout_ms": -1})
    a.heartbeat("leaves what is not there", -1)
    a.heartbeat("beats in no group", 1)
    a.heartbeat("has a bad expression", 0, **full | {"subscribed_topic_names": None, "subscribed_topic_regex": "(("})
    a.heartbeat("joins with an empty expression", 0, **full | {"subscribed_topic_names": (), "subscribed_topic_regex": ""})
    a.heartbeat("repeats a topic", 2, subscribed_topic_names=(*(names or ()), *(names or ())))
    s.describe()
    s.call
    old = s.member("old", version=0)
    old.member_id = ""
    old.heartbeat("has no id in v0", 0, **{k: v for k, v in full.items() if k != "subscribed_topic_regex"})


@scenario
def regular_expressions(s: Script) -> None:
    """Subscriptions by RE2: alone, beside names, changed, shared, and matching topics that come later."""
    s.topic("foo-1", 2)
    s.topic("foo-2", 2)
    s.topic("bar", 2)
    s.configure(interval=0)
    a = s.member("A", topics=None, regex="foo.*")
    b = s.member("B", topics=("bar",))
    a.join()
    s.pass_time(300)
    a.settle()
    s.describe()
    b.join()
    b.settle()
    a.settle()
    s.describe()
    c = s.member("C", topics=None, regex="foo.*")
    c.join()
    a.settle()
    c.settle()
    s.describe()
    b.heartbeat("takes an expression too", b.epoch, subscribed_topic_regex=s.full("foo-2"))
    s.pass_time(300)
    for _ in range(3):
        for member in (a, b, c):
            member.settle()
    s.describe()
    b.heartbeat("drops it", b.epoch, subscribed_topic_regex="")
    for _ in range(2):
        for member in (a, b, c):
            member.settle()
    s.describe()
    a.leave()
    c.leave()
    b.settle()
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


@scenario
def groups_without_topics(s: Script) -> None:
    """Members that subscribe to nothing, or to topics that do not exist, are members all the same."""
    s.configure(interval=0)
    a, b = s.member("A", topics=()), s.member("B", topics=("missing",))
    a.join()
    b.join()
    a.settle()
    b.settle()
    s.describe()
    a.leave()
    b.leave()
    s.list()


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
