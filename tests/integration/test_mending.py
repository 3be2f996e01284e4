"""What brokers leave to nobody has an owner again without anybody's help; what is not mended stays as it is."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from support.broker import Kafka
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.ownership import Partition, overlaps
from support.raw_member import Offer, RawMember
from support.raw_new_member import LEAVE, STATIC_LEAVE, RawNewMember
from support.waiting import eventually

from tools.kafka.settings import GROUP_DEFAULTS
from translation.mending.suspicion import CONFIRMED_AFTER_S

pytestmark = pytest.mark.kafka

ANY_CLASSIC_GROUP = """\
default: observe
rules:
  - {pattern: ".*", mode: observe, mend: true}
"""
OK, REBALANCE = 0, 27
SESSION_MS, HEARTBEAT_S = 45_000, 15.0
STATIC = Offer(instance_id="one")

POLICY = """\
default: observe
rules:
  - {{pattern: "left-.*", mode: {mode}, mend: false}}
  - {{pattern: ".*", mode: {mode}{more}}}
"""
LOOKS = {"ask_brokers_every_s": 1.0}
MENDED_S = 60.0


BOTH = pytest.mark.parametrize(
    "broker", ["short", pytest.param("stock", marks=pytest.mark.long)], indirect=True
)
"""The shared broker, and in a long run one with Kafka's own settings for groups."""


def targets(kafka: Kafka, group: str) -> set[int]:
    """The partitions that some member of a consumer group is to have."""
    return {number for one in kafka.describe(group).members for at in one.target.values() for number in at}


def unowned(proxy: Proxy, group: str) -> dict | None:
    """What /api/groups says that nobody has."""
    return proxy.group(group)["unowned"]


def events(proxy: Proxy, group: str, *kinds: str) -> list[str]:
    """The reasons of these events of a group, in order."""
    return [one["reason"] for one in proxy.group(group)["events"] if one["kind"] in kinds]


@pytest.fixture
def opened() -> Iterator[Callable[[RawMember | RawNewMember], Any]]:
    """Closes the members that a test has made by hand."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def broker(request, kafka, own_kafka) -> Kafka:
    """The shared broker, or one with Kafka's own settings for groups."""
    if request.param == "short":
        return kafka
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    return Kafka(cluster.bootstrap, source="own", version=cluster.version)


@pytest.mark.scenario(
    "static members are moved before they notice that their topic has grown: all has an owner"
)
@BOTH
def test_what_a_topic_has_grown_by_before_static_members_were_moved(broker, consumers, folder: Path, group):
    """The end of the helper moves the group epoch, so nothing is left to mend, or to leave with `mend: false`."""
    kafka, left = broker, f"left-{group}"
    topics = {one: kafka.new_topic(partitions=4) for one in (group, left)}
    stock = kafka.source == "own"
    spec = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000} if stock else {}
    policy_of = POLICY.format
    with running_proxy(
        kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=policy_of(mode="observe", more="")
    ) as proxy:
        members = {
            one: [
                consumers.start(
                    CONFLUENT, proxy.bootstrap, one, topic, "roundrobin", instance_id=instance, **spec
                )
                for instance in ("one",)
            ]
            for one, topic in topics.items()
        }

        def shared(one: str, partitions: int) -> bool:
            everything = {Partition(topics[one], number) for number in range(partitions)}
            owned = [each.owned() for each in members[one]]
            return set().union(*owned) == everything and sum(map(len, owned)) == partitions

        for one in topics:
            consumers.wait_until(lambda one=one: shared(one, 4), f"{one} shares its partitions")
        for topic in topics.values():
            kafka.admin.create_partitions([NewPartitions(topic, 6)])[topic].result(timeout=60)
        (proxy.folder / "policy.yaml").write_text(policy_of(mode="translate", more=""))
        for one in topics:
            eventually(
                lambda one=one: kafka.describe(one),
                lambda view: (
                    view is not None
                    and view.state == "Stable"
                    and [each.member_type for each in view.members] == ["consumer"]
                ),
                what=f"{one} is moved",
                timeout_s=90,
            )
            consumers.wait_until(lambda one=one: shared(one, 6), "the new partitions have owners")
            eventually(lambda one=one: unowned(proxy, one), lambda seen: seen is None, what="none is shown")
            assert events(proxy, one, "left_unowned", "mending") == []
    assert overlaps(consumers.logs) == []


def until_told(member: RawMember, *others: RawMember) -> None:
    """All heartbeat until this member is told to join again, and none of the others is before."""

    def look() -> int:
        assert [one.heartbeat() for one in others] == [OK] * len(others)
        return member.heartbeat()

    eventually(look, lambda code: code == REBALANCE, what="it is told to join again", timeout_s=MENDED_S)


@pytest.mark.scenario(
    "a static cooperative member restarts between giving up and joining: the leader is told"
)
@BOTH
def test_what_a_classic_static_member_gave_up_before_it_started_again(broker, folder: Path, group, opened):
    kafka = broker
    topic = kafka.new_topic(partitions=4)
    left = f"left-{group}"

    def pair_with_a_gap(bootstrap: str, group_id: str) -> tuple[RawMember, RawMember]:
        """A, the leader, and the new process of B, to which nobody has said that 1 is to be given up to A."""
        a = opened(RawMember(bootstrap, group_id, topic))
        b = opened(RawMember(bootstrap, group_id, topic, offer=STATIC))
        a.join()
        a.sync(4)
        b.send_join()
        until_told(a)
        a.join()
        b.receive_join()
        a.sync(shares={a.member_id: frozenset({0}), b.member_id: frozenset({2, 3})})
        b.sync()
        new = opened(RawMember(bootstrap, group_id, topic, offer=STATIC))
        new.join()
        assert not new.leads
        assert new.sync() == {topic: frozenset({2, 3})}
        assert a.heartbeat() == OK
        return a, new

    with running_proxy(kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=ANY_CLASSIC_GROUP) as proxy:
        straight = pair_with_a_gap(kafka.bootstrap, left)
        a, b = pair_with_a_gap(proxy.bootstrap, group)

        def look() -> int:
            assert [one.heartbeat() for one in (*straight, b)] == [OK, OK, OK]
            return a.heartbeat()

        eventually(look, lambda code: code == REBALANCE, what="the leader is told", timeout_s=MENDED_S)
        a.send_join()
        until_told(b)
        b.join()
        a.receive_join()
        assert a.leads
        assert len(a.sync(4)[topic] | b.sync()[topic]) == 4

        def shown() -> dict | None:
            assert a.heartbeat() == b.heartbeat() == OK
            return unowned(proxy, group)

        eventually(shown, lambda seen: seen is None, what="it is not shown any more")
        assert events(proxy, group, "mending") == [
            "told to join again, try 1",
            "all partitions have an owner again",
        ]
    assert [one.heartbeat() for one in straight] == [OK, OK]
    assert kafka.describe_classic(left).group_state == "Stable"


@pytest.mark.long
@pytest.mark.scenario("the coordinator fails over in the rebalance after a downgrade: the member is told")
@pytest.mark.parametrize("overrides", [{}, GROUP_DEFAULTS], ids=["short", "stock"])
def test_what_a_failover_after_a_downgrade_has_forgotten(own_kafka, overrides, folder: Path, group, opened):
    cluster = own_kafka(overrides=overrides)
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=4)
    with running_proxy(kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=ANY_CLASSIC_GROUP) as proxy:
        new = opened(RawNewMember(kafka, group, topic))
        classic = opened(RawMember(proxy.bootstrap, group, topic))
        new.join().until_owns(4)
        classic.join()
        assert classic.sync() == {}
        new.until_asked_back()
        new.full(new.owned)
        until_told(classic)
        classic.join()
        share = classic.sync()[topic]
        assert new.beat(LEAVE).error_code == OK
        assert classic.heartbeat() == REBALANCE
        cluster.kill_broker(cluster.brokers[0].node_id)
        cluster.start_broker(cluster.brokers[0].node_id)

        again = eventually(
            lambda: connected(proxy, group, topic, classic), lambda one: one is not None, what="it is back"
        )
        opened(again)
        assert again.sync()[topic] == share
        until_told(again)
        again.join()
        assert again.leads
        assert again.sync(4)[topic] == {0, 1, 2, 3}


def connected(proxy: Proxy, group: str, topic: str, before: RawMember) -> RawMember | None:
    """The same client on a new connection, once the coordinator is there and answers."""
    try:
        again = RawMember(proxy.bootstrap, group, topic)
    except (OSError, LookupError):
        return None
    again.member_id, again.generation = before.member_id, before.generation
    with contextlib.suppress(OSError):
        if again.heartbeat() == OK:
            return again
    again.__exit__(None, None, None)
    return None


@pytest.mark.long
@pytest.mark.scenario(
    "the last new member comes back as a classic one in its own place: the one that waits is told"
)
@BOTH
def test_a_member_that_waits_for_its_share_when_the_group_becomes_classic(
    broker, folder: Path, group, opened
):
    kafka = broker
    topic = kafka.new_topic(partitions=4)
    left = f"left-{group}"

    def one_that_waits(bootstrap: str, group_id: str) -> tuple[RawMember, RawMember]:
        """A classic member that has been told of nothing yet, and one that has come back in its own place."""
        new = opened(RawNewMember(kafka, group_id, topic, instance_id="one")).join().until_owns(4)
        waits = opened(RawMember(bootstrap, group_id, topic))
        new.full(new.owned)
        waits.join()
        assert waits.sync() == {}

        def in_the_newest_epoch() -> bool:
            new.beat()
            if waits.heartbeat() == REBALANCE:  # since 4.3 the assignment may have come after its join
                waits.join()
                assert waits.sync() == {}
            return waits.generation == kafka.describe(group_id).group_epoch

        eventually(in_the_newest_epoch, bool, what="it has been told of the newest assignment")
        assert new.beat(STATIC_LEAVE).error_code == OK
        back = opened(RawMember(bootstrap, group_id, topic, offer=STATIC))
        back.join()
        assert len(back.sync()[topic]) == 2
        return waits, back

    with running_proxy(kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=ANY_CLASSIC_GROUP) as proxy:
        straight = one_that_waits(kafka.bootstrap, left)
        waits, back = one_that_waits(proxy.bootstrap, group)

        def look() -> int:
            assert [one.heartbeat() for one in straight] == [OK, OK]
            back.heartbeat()
            return waits.heartbeat()

        eventually(look, lambda code: code == REBALANCE, what="it is told", timeout_s=MENDED_S)
        waits.send_join()
        eventually(
            lambda: (waits.has_answer(), back.heartbeat()),
            lambda seen: seen[0] or seen[1] == REBALANCE,
            what="its JoinGroup is answered, or begins a rebalance",
        )
        if not waits.has_answer():
            back.join()
        waits.receive_join()
        shares = [waits.sync(4 if waits.leads else 0), back.sync(4 if back.leads else 0)]
        assert set().union(*(share[topic] for share in shares)) == {0, 1, 2, 3}
    assert [one.heartbeat() for one in straight] == [OK, OK]


def rejoin_if_told(members: list[RawMember]) -> None:
    """All heartbeat, and those that are told to join again do."""
    for one in members:
        if one.heartbeat() == REBALANCE:
            one.join()
            one.sync()


def answered_beside(new: RawMember, others: list[RawMember]) -> bool:
    """Whether a new member's JoinGroup is answered; until it is, the others heartbeat and do what they are told."""
    if new.has_answer():
        return True
    rejoin_if_told(others)
    return False


class HealthyGroups:
    """Groups of one member or two, whose clients do what they are told."""

    def __init__(self, kafka: Kafka, proxy: Proxy, opened: Callable[[RawMember], Any], count: int) -> None:
        self.topics = [kafka.new_topic(partitions=4) for _ in range(3)]
        self.names = [f"h-{number}" for number in range(count)]
        self._kafka, self._proxy = kafka, proxy
        self._members: list[RawMember] = []
        self._heard = time.monotonic()
        for number, name in enumerate(self.names):
            group: list[RawMember] = []
            for _ in range(2 if number % 50 == 1 else 1):  # two take seconds to share at a stock broker
                new = opened(
                    RawMember(proxy.bootstrap, name, self.topic(number), session_timeout_ms=SESSION_MS)
                )
                new.send_join()
                eventually(partial(answered_beside, new, group), what="its JoinGroup is answered")
                new.receive_join()
                new.sync()
                group.append(new)
            self._members += group
            self.live()

    def topic(self, number: int) -> str:
        """What the group of this number subscribes to."""
        return self.topics[number % 3]

    def heartbeats(self) -> None:
        """All heartbeat once."""
        rejoin_if_told(self._members)
        self._heard = time.monotonic()

    def live(self) -> None:
        """All heartbeat if it is time. To ask about a thousand groups takes longer than a session."""
        if time.monotonic() - self._heard > HEARTBEAT_S:
            self.heartbeats()

    def epochs(self) -> list[int]:
        """The group epochs, once all groups are settled."""

        def settled(name: str) -> bool:
            self.live()
            view = self._kafka.describe(name)
            return view.state == "Stable" and view.assignment_epoch == view.group_epoch

        def look() -> list[str]:
            self.heartbeats()
            return [name for name in self.names if not settled(name)]

        eventually(look, lambda rest: rest == [], what="all groups are settled", timeout_s=120)
        found = []
        for name in self.names:
            self.live()
            found.append(self._kafka.describe(name).group_epoch)
        return found

    def are_looked_at(self, since: float) -> None:
        """Until the proxy has asked the broker about each group after this time (seconds since the epoch)."""

        def look() -> int:
            self.heartbeats()
            with urllib.request.urlopen(f"{self._proxy.admin}/api/groups", timeout=60) as answer:  # noqa: S310  our own
                shown = {one["id"]: one["broker"] for one in json.load(answer)["groups"]}
            return sum(shown[name] is not None and shown[name]["asked_at"] > since for name in self.names)

        everyone = len(self.names)
        eventually(look, lambda asked: asked == everyone, what="each was asked about", timeout_s=180)


@pytest.mark.long
@pytest.mark.scenario("healthy groups, of which every third grows, are left as they are")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("broker", "count"), [("short", 30), ("stock", 1_000)], indirect=["broker"], ids=["30", "1000-stock"]
)
def test_nothing_is_stirred_in_healthy_groups(broker, count, folder: Path, opened):
    kafka = broker
    with running_proxy(
        kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=POLICY.format(mode="translate", more="")
    ) as proxy:
        groups = HealthyGroups(kafka, proxy, opened, count)
        before = groups.epochs()
        kafka.admin.create_partitions([NewPartitions(groups.topics[0], 6)])[groups.topics[0]].result(
            timeout=60
        )
        for _ in range(
            3
        ):  # two looks ten seconds apart are what a group is mended after; the third would be it
            groups.are_looked_at(time.time() + CONFIRMED_AFTER_S)
        after = groups.epochs()
        assert [new - old for new, old in zip(after, before, strict=True)] == [
            0 if number % 3 else 1 for number in range(count)
        ]
        for number, name in enumerate(groups.names):
            groups.live()
            assert targets(kafka, name) == set(range(4 if number % 3 else 6))
            assert events(proxy, name, "mending", "left_unowned") == []
        assert "epochgate_group_unowned_partitions{" not in proxy.metrics()
