"""What members subscribe to changes, and so do the topics."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


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
def expressions_are_resolved_together(s: Script) -> None:
    """Ten seconds after the first was resolved, those that came since then are, too."""
    for name in ("foo-1", "foo-2", "bar"):
        s.topic(name, 2)
    s.configure(interval=0, session=30_000)
    first = s.member("A", topics=None, regex="foo.*")
    first.join()
    s.pass_time(300)
    later = [
        s.member(name, topics=None, regex=regex)
        for name, regex in zip("BCDE", ("b.*", ".*", "x", "foo-2"), strict=True)
    ]
    for member in later:
        member.join()
    s.describe()
    s.pass_time(10_100)
    first.beat()
    s.pass_time(300)
    for member in (first, *later, first, *later):
        member.settle()
    s.describe()


@scenario
def a_newcomer_without_topics_leaves_the_others_none(s: Script) -> None:
    """Its heartbeat does not count the subscriptions again, so the range assignor takes its topics, none, for all."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a = s.member("A", topics=None, regex="foo.*", assignor="range")
    a.join()
    s.pass_time(300)
    s.member("B", topics=(), instance_id="one").join()
    a.settle()
    s.describe()
    a.subscribe("foo")
    a.settle()
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
