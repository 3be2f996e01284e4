"""Native members (`group.protocol=consumer`) whose group has nobody else.

Nothing of theirs is the proxy's business: each test runs the same script straight at the broker, and what it asserts
holds for both.
"""

from pathlib import Path

import pytest
from support.broker import Kafka
from support.entry import Entry, running_proxy
from support.native_cases import BROKER_SESSION_S, NATIVE, SLACK_S, both_ways, each_native
from support.native_group import CLASSIC, NativeGroup
from support.waiting import stays

from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = pytest.mark.kafka

STOCK_SESSION_S = 45.0
"""The default session timeout of classic clients and of brokers."""


@each_native()
def test_commits_are_accepted_while_the_epoch_moves(native, native_group):
    first = native_group.join(native)
    native_group.work(2)
    second = native_group.join(native)
    native_group.work(2)
    third = native_group.join(native)
    native_group.work(2)
    native_group.leave(second)
    native_group.work(2)
    native_group.leave(third)
    native_group.work(2)
    assert first.commit().kind == "committed"
    native_group.judge()


@each_native(costly=True)
def test_the_partitions_of_a_killed_one_are_free_after_the_brokers_session(native, native_group):
    native_group.join(native)
    victim = native_group.join(native)
    native_group.work(2)
    assert native_group.kill(victim) < BROKER_SESSION_S + SLACK_S
    native_group.work()
    native_group.judge()


@each_native()
def test_one_that_leaves_hands_over_at_once(native, native_group):
    native_group.join(native)
    second = native_group.join(native)
    native_group.work(2)
    assert native_group.leave(second) < BROKER_SESSION_S
    native_group.work()
    native_group.judge()


@pytest.mark.long
@both_ways
def test_idle_members_stay_longer_than_any_session(native_group):
    """They heartbeat by themselves; nothing else of them is heard for longer than a stock session."""
    idle(native_group)


def test_idle_members_stay_on_a_stock_broker(own_kafka, consumers, folder: Path):
    """There they heartbeat every 5 s."""
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        idle(NativeGroup(kafka, Entry("translate", proxy.bootstrap), consumers))


def idle(group: NativeGroup) -> None:
    """One of each library works, is idle for longer than 45 s, and works again."""
    for native in NATIVE:
        group.join(native, settle=False)
    group.settle("all joined")
    group.work(2)
    marks = {member: member.mark() for member in group.members.values()}
    stays(
        lambda: [event for member, mark in marks.items() for event in member.callbacks(mark)],
        lambda callbacks: not callbacks,
        what="no member hears of a rebalance",
        for_s=STOCK_SESSION_S + SLACK_S,
    )
    group.work()
    group.judge()


def test_a_proxy_that_was_killed_knows_native_members_again(own_kafka, consumers, folder: Path):
    """It has forgotten whose heartbeats it passed. The broker's session is long enough for its start, and members
    heartbeat several times in each round of work."""
    cluster = own_kafka(overrides={"group.consumer.session.timeout.ms": str(int(STOCK_SESSION_S * 1000))})
    kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        group = NativeGroup(kafka, Entry("translate", proxy.bootstrap), consumers)
        for kind in (*NATIVE, CLASSIC[0]):
            group.join(kind)
        group.work(2)
        owned = {member: member.owned() for member in group.members.values()}
        proxy.kill()
        proxy.start()
        group.work(4)
        assert {member: member.owned() for member in owned} == owned
        group.judge()
