"""Java consumers whose group the proxy hosts (`mode: host`): their own assignors decide, whatever happens."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import Kafka
from support.clients import JAVA
from support.entry import running_proxy
from support.load import Load
from support.ownership import Partition, account, overlaps
from support.waiting import eventually

PARTITIONS = 6
ASSIGNORS = ("logged-cooperative-sticky", "logged-sticky", "reversed")
"""Those of ConsumerDriver.java that say what they have computed."""

MODE = """\
default: observe
rules:
  - {{pattern: "g-.*", mode: {mode}}}
"""
EXPERIMENTAL = {"experimental": True}
WITHOUT_NEW_PROTOCOL = "3.9.1"


class Story:
    """A group with load on its topic, and the consumers that are meant to live."""

    def __init__(self, consumers, proxy, load, group, topic, assignor, **spec) -> None:
        self.spec = spec
        self.consumers, self.proxy, self.load = consumers, proxy, load
        self.group, self.topic, self.assignor = group, topic, assignor
        self.members = []

    def join(self, count: int = 1) -> None:
        """Start consumers."""
        self.members += [
            self.consumers.start(
                JAVA, self.proxy.bootstrap, self.group, self.topic, self.assignor, **self.spec
            )
            for _ in range(count)
        ]

    def close(self, member) -> None:
        """Have one leave."""
        self.members.remove(member)
        member.close()

    def kill(self, member) -> None:
        """Kill one."""
        self.members.remove(member)
        member.kill()

    def produced(self):
        """The records that were acknowledged so far, by place."""
        return {(Partition(self.topic, one.partition), one.offset): one.value for one in self.load.records}

    def _last_computed(self):
        """What the assignor of whoever was leader computed last: partitions by member id."""
        computed = [event for one in self.consumers.all for event in one.seen("computed")]
        if not computed:
            return {}
        last = max(computed, key=lambda event: event.mono)
        return {
            member_id: frozenset(Partition(topic, number) for topic, number in partitions)
            for member_id, partitions in last.fields["members"].items()
        }

    def _owned(self):
        """What each living member owns, by member id."""
        return {
            one.seen("assigned")[-1].fields["member_id"]: one.owned()
            for one in self.members
            if one.seen("assigned")
        }

    def settled(self, what: str) -> None:
        """Wait until everybody has what the clients' own assignor computed, and all is read that was produced."""
        everything = {Partition(self.topic, number) for number in range(PARTITIONS)}

        def as_computed():
            owned = self._owned()
            return (
                len(owned) == len(self.members)
                and set().union(*owned.values()) == everything
                and owned == self._last_computed()
            )

        self.consumers.wait_until(as_computed, f"the assignment is the one that a client computed: {what}")
        until_now = self.produced().keys()
        self.consumers.wait_until(
            lambda: until_now <= set().union(*(one.consumed() for one in self.consumers.all)),
            f"everything is read that was produced until now: {what}",
        )

    def end(self) -> None:
        """Produce no more, and wait until all is read."""
        self.load.stop()
        self.settled("the end")

    def check(self) -> None:
        """No partition had two owners by the clients' own callbacks, and no record is lost."""
        assert overlaps(self.consumers.logs) == []
        assert account(self.produced(), self.consumers.logs).lost == frozenset()


@contextlib.contextmanager
def playing(
    kafka, consumers, folder: Path, group, assignor, *, mode="host", session_timeout_ms=None, **options
) -> Iterator[Story]:
    """A story behind a proxy with these options. It is checked when all are gone."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    policy = MODE.format(mode=mode)
    spec = {} if session_timeout_ms is None else {"session_timeout_ms": session_timeout_ms}
    with (
        running_proxy(
            kafka.bootstrap, folder / "proxy", policy=policy, more=EXPERIMENTAL, **options
        ) as proxy,
        Load(kafka, topic) as load,
    ):
        story = Story(consumers, proxy, load, group, topic, assignor, **spec)
        yield story
    story.check()


@pytest.mark.kafka
@pytest.mark.long
def test_the_clients_own_assignor_decides_shortly(kafka, consumers, folder: Path, group):
    """The short form of the next one: no broker has this assignor.

    The normal run has the histories of tests/hosting/groups/ only: real clients of an experiment cost it too
    much.
    """
    with playing(kafka, consumers, folder, group, "reversed", session_timeout_ms=3_000) as story:
        story.join(2)
        story.settled("two members")
        story.close(story.members[0])
        story.end()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_clients_own_assignor_decides(assignor, kafka, consumers, folder: Path, group):
    """Members join, leave and die. (The rolling restart and the way in and back are the next tests'.)"""
    with playing(kafka, consumers, folder, group, assignor) as story:
        story.join(2)
        story.settled("two members")
        assert len(kafka.describe_classic(group).members) == 0
        shown = [line for line in story.proxy.metrics().splitlines() if line.startswith("epochgate_members{")]
        assert [line for line in shown if 'mode="host"' in line and line.endswith(" 2.0")], shown
        story.join()
        story.settled("a third one has joined")
        story.kill(story.members[0])
        story.settled("one was killed")
        story.join()
        story.close(story.members[0])
        story.settled("one has come and one has left")
        story.end()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_rolling_restart(assignor, kafka, consumers, folder: Path, group):
    with playing(kafka, consumers, folder, group, assignor) as story:
        story.join(3)
        story.settled("three members")
        for member in list(story.members):
            story.close(member)
            story.join()
            story.settled(f"after {member.name}")
        story.end()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_live_group_goes_in_and_back(assignor, kafka, consumers, folder: Path, group):
    with playing(
        kafka,
        consumers,
        folder,
        group,
        assignor,
        mode="observe",
        journal={"path": "journal", "file_max_age_s": 1},
        verify={"live": True},
    ) as story:
        proxy = story.proxy
        policy = proxy.folder / "policy.yaml"
        story.join(3)
        story.settled("the classic group")
        for mode, at_the_broker in (("host", 0), ("observe", 3), ("host", 0)):
            policy.write_text(MODE.format(mode=mode))
            eventually(
                lambda: len(kafka.describe_classic(group).members),
                lambda count, wanted=at_the_broker: count == wanted,
                what=f"{at_the_broker} members at the broker, in mode {mode}",
                timeout_s=60,
            )
            story.settled(f"in mode {mode}")
        story.end()
        proof = eventually(
            lambda: proxy.group(group)["proof"] or {},
            lambda found: bool(found.get("certificate")),
            what="the proxy has verified its journal",
        )
        assert proof["verdict"] != "violated", proof
        assert proof["certificate"]["owners"]["violations"] == []


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_on_a_broker_without_the_new_protocol(assignor, own_kafka, consumers, folder: Path, group):
    """Kafka 3.9, whose coordinator knows classic groups only."""
    cluster = own_kafka(version=WITHOUT_NEW_PROTOCOL)
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with playing(kafka, consumers, folder, group, assignor) as story:
        story.join(2)
        story.settled("two members")
        story.kill(story.members[0])
        story.join(2)
        story.settled("one was killed and two have come")
        story.close(story.members[0])
        story.settled("one has left")
        story.end()
