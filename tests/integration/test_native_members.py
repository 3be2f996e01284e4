"""Native members (`group.protocol=consumer`) in a group that the proxy translates, alone and beside classic members.

Nothing of theirs is the proxy's business: each test runs the same script straight at the broker, and what it asserts
holds for both.
"""

from pathlib import Path

import pytest
from support.broker import Kafka
from support.clients import CONFLUENT, JAVA
from support.entry import Entry, running_proxy
from support.native_group import CLASSIC, NATIVES, STRAIGHT, MemberKind, NativeGroup, Outcome
from support.waiting import stays

from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = pytest.mark.kafka

NOTHING = Outcome()
NATIVE = tuple(MemberKind(client) for client in NATIVES)
BROKER_SESSION_S = 6.0
"""tools/kafka/settings.py: seven and a half times shorter than a stock broker's."""
SLACK_S = 6.0
"""For the others to hear of it at their heartbeats, on a machine that does other things too."""
STOCK_SESSION_S = 45.0
"""The default session timeout of classic clients and of brokers."""

MODE = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}, switch_pause_ms: 500}}
"""

both_ways = pytest.mark.parametrize("mode", ["direct", "translate"])
each_native = pytest.mark.parametrize("native", NATIVE, ids=str)


@pytest.fixture
def native_group(kafka, entries, consumers, mode) -> NativeGroup:
    """A group at the entry of this test."""
    return NativeGroup(kafka, entries[mode], consumers)


def judge(group: NativeGroup) -> None:
    """Nobody was refused or put out, no partition had two owners, every record was read once."""
    assert group.outcome() == NOTHING, group.unwanted()


@both_ways
@each_native
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
    judge(native_group)


@both_ways
@each_native
def test_the_partitions_of_a_killed_one_are_free_after_the_brokers_session(native, native_group):
    native_group.join(native)
    victim = native_group.join(native)
    native_group.work(2)
    assert native_group.kill(victim) < BROKER_SESSION_S + SLACK_S
    native_group.work()
    judge(native_group)


@both_ways
@each_native
def test_one_that_leaves_hands_over_at_once(native, native_group):
    native_group.join(native)
    second = native_group.join(native)
    native_group.work(2)
    assert native_group.leave(second) < BROKER_SESSION_S
    native_group.work()
    judge(native_group)


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
        group.join(native)
    group.work(2)
    marks = {member: member.mark() for member in group.members.values()}
    stays(
        lambda: [event for member, mark in marks.items() for event in member.callbacks(mark)],
        lambda callbacks: not callbacks,
        what="no member hears of a rebalance",
        for_s=STOCK_SESSION_S + SLACK_S,
    )
    group.work()
    judge(group)


@both_ways
@each_native
def test_beside_translated_and_classic_members(native, native_group):
    """The classic ones come through the entry, and one straight to the broker, as in a rollout."""
    stays_on = native_group.join(native)
    native_group.work()
    through = native_group.join(CLASSIC[0])
    native_group.work()
    native_group.join(STRAIGHT)
    native_group.work()
    also_through = native_group.join(CLASSIC[1])
    native_group.work()
    victim = native_group.join(native)
    native_group.work()
    assert native_group.kill(victim) < BROKER_SESSION_S + SLACK_S
    native_group.work()
    native_group.kill(through)
    native_group.work()
    native_group.leave(also_through)
    native_group.work()
    assert stays_on.commit().kind == "committed"
    judge(native_group)


@both_ways
def test_all_libraries_in_one_group(native_group):
    """Each native one, and a translated one, come, and go in another order."""
    members = [native_group.join(kind) for kind in (*NATIVE, *CLASSIC)]
    native_group.work(2)
    native_group.kill(members[1])
    native_group.work()
    native_group.leave(members[0])
    native_group.work()
    native_group.kill(members[3])
    native_group.work()
    native_group.join(NATIVE[0])
    native_group.work()
    judge(native_group)


@both_ways
@each_native
def test_a_static_one_that_restarts_keeps_its_partitions(native, native_group):
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.leave(old, settle=False)
    new = native_group.join(native, instance_id="one")
    assert new.owned() == owned
    native_group.work(2)
    judge(native_group)


@both_ways
@each_native
def test_a_killed_static_one_is_back_after_the_brokers_session(native, native_group):
    """Until then the broker refuses its successor (UNRELEASED_INSTANCE_ID), which some clients take for fatal."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    assert native_group.kill(old) < BROKER_SESSION_S + SLACK_S
    native_group.join(native, instance_id="one")
    native_group.work(2)
    judge(native_group)


@both_ways
@each_native
def test_a_classic_client_takes_over_from_a_native_one_that_was_closed(native, native_group):
    """The rollback of one application with an instance id."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.leave(old, settle=False)
    new = native_group.join(CLASSIC[0], instance_id="one")
    assert new.owned() == owned
    native_group.work(2)
    judge(native_group)


@both_ways
@pytest.mark.parametrize("native", [MemberKind(CONFLUENT), MemberKind(JAVA)], ids=str)
def test_a_classic_client_replaces_a_native_one_that_still_runs(native, native_group):
    """The same without waiting for the old process. franz-go is not here: fenced, it joins anew and takes its place
    back from the classic client, straight at Kafka too."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.replaced(old)
    new = native_group.join(CLASSIC[0], instance_id="one", settle=False)
    new.wait_until(lambda: new.owned() == owned, "the new process has the partitions of the old one")
    native_group.wait_until_fenced(old)
    old.kill()
    native_group.settle("the old process is gone")
    native_group.work(2)
    judge(native_group)


@both_ways
@each_native
def test_a_native_client_takes_over_from_a_classic_one_after_its_session(native, native_group):
    """The rollout of one application with an instance id. A static classic client does not leave when it is closed;
    until its session has ended the broker would refuse its successor (UNRELEASED_INSTANCE_ID)."""
    native_group.join(native)
    old = native_group.join(CLASSIC[0], instance_id="one")
    native_group.work(2)
    assert native_group.leave(old) < BROKER_SESSION_S + SLACK_S
    native_group.join(native, instance_id="one")
    native_group.work(2)
    judge(native_group)


@each_native
def test_a_live_switch_passes_native_members_by(native, kafka, consumers, folder: Path):
    """Classic members are moved beside them and back; of what they see, straight at Kafka there is no such thing."""
    with running_proxy(kafka.bootstrap, folder / "proxy", policy=MODE.format(mode="observe")) as proxy:
        group = NativeGroup(kafka, Entry("observe", proxy.bootstrap), consumers)
        stays_on = group.join(native)
        for kind in (*CLASSIC, STRAIGHT):
            group.join(kind)
        group.work(2)
        group.wait_until_moved("observe")
        for mode in ("translate", "observe", "translate"):
            group.wait_for_commits()
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))
            group.wait_until_moved(mode)
            group.work(2)
        assert stays_on.commit().kind == "committed"
        judge(group)


def test_a_proxy_that_was_killed_knows_native_members_again(own_kafka, consumers, folder: Path):
    """It has forgotten whose heartbeats it passed. The broker's session is long enough for its start."""
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
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
        judge(group)
