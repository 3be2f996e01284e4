"""The holes of a conversion in place, through the proxy at a real broker: see the list in docs/evidence/in-place.md.

Races are made by holding a call of the proxy back. In each no partition has two owners at any step, none is without an
owner for longer than 5 s, and no client loses its membership.
"""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from kio.schema.errors import ErrorCode
from support.broker import Kafka
from support.moved_group import HELPER, behind_relay
from support.stepped_group import stepped_group
from support.waiting import eventually

from protocol_codecs import ApiKey

PARTITIONS = 6
LAST_SESSION_MS = 8_000

pytestmark = pytest.mark.kafka


@pytest.fixture
def moved(kafka, folder: Path, group):
    with behind_relay(kafka, folder, group, PARTITIONS) as moved:
        yield moved


def members(kafka, group_id):
    """{member id: classic or consumer} of a consumer group."""
    view = kafka.describe(group_id)
    return {} if view is None else {one.member_id: one.member_type for one in view.members}


# -- 1.1: what was unfinished when the group was converted -----------------------------------------------------


def test_a_member_leaves_while_the_helper_is_on_its_way(moved):
    """It is at another entry. Its partitions are nobody's when the group is converted."""
    leaver = moved.group.client(straight=True)
    moved.group.form(2)
    hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, HELPER)
    moved.policy("translate")
    moved.until_held(hold)
    leaver.leave_group()
    hold.release()
    moved.group.until_translated()
    moved.group.ensure_no_harm()


def test_a_join_group_waits_at_the_broker_while_the_helper_is_on_its_way(moved):
    """The newcomer enters elsewhere. Its JoinGroup fails by the conversion, and it has nothing at first."""
    moved.group.form()
    hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, HELPER)
    moved.policy("translate")
    moved.until_held(hold)
    newcomer = moved.group.client(straight=True)
    moved.group.until(
        lambda: moved.group.kafka.describe_classic(moved.group.group).group_state == "PreparingRebalance",
        "its JoinGroup waits at the broker",
    )
    hold.release()
    moved.group.until(
        lambda: moved.group.kafka.describe(moved.group.group) is not None and moved.group.is_shared(),
        "it has its share in the consumer group",
    )
    assert newcomer.owned
    moved.group.ensure_no_harm()


def test_partitions_that_were_added_before_have_an_owner_soon_after_the_conversion(moved):
    """The leader has not noticed them, and does not look: clients do every five minutes."""
    moved.group.form()
    grown = NewPartitions(moved.group.topic, PARTITIONS + 2)
    moved.group.kafka.admin.create_partitions([grown])[moved.group.topic].result(timeout=60)
    with stepped_group(moved.group.kafka, moved.proxy.bootstrap, f"{moved.group.group}-2", 1) as other:
        other.topic = moved.group.topic
        native = other.native()
        other.until(lambda: len(native.owned) == PARTITIONS + 2, "the coordinator knows them")
        native.leave()
    moved.policy("translate")
    moved.group.until(
        lambda: moved.group.kafka.describe(moved.group.group) is not None, "the group is converted"
    )
    moved.group.partitions = PARTITIONS + 2
    moved.group.watch()
    moved.group.until_translated()
    moved.group.ensure_no_harm()


def test_a_topic_that_the_coordinator_does_not_know_yet(moved):
    """Metadata comes from a broker that is ahead of it. The conversion loses the topic, without an error."""
    moved.group.topic = f"new-{moved.group.topic}"
    moved.relay.invent_topics({moved.group.topic: PARTITIONS})
    clients = moved.group.form()
    moved.policy("translate")
    moved.group.until(lambda: len(moved.helpers) > 1, "a second helper has the broker assign anew")
    assert [moved.relay.calls(ApiKey.CONSUMER_GROUP_HEARTBEAT, one.member_id) for one in clients] == [
        [],
        [],
        [],
    ]
    moved.relay.invent_topics({})
    moved.group.kafka.new_topic(partitions=PARTITIONS, name=moved.group.topic)
    moved.group.until_translated()
    moved.group.ensure_no_harm()


# -- 1.2: the target moves before a member is converted --------------------------------------------------------


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_newcomer_is_assigned_a_members_partitions_just_before_its_conversion(moved, cooperative):
    clients = moved.group.form(2, cooperative=cooperative)  # of each the newcomer gets one partition
    victim = clients[-1]
    hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, victim.member_id)
    moved.policy("translate")
    moved.until_held(hold)
    moved.group.native()
    moved.group.until(lambda: _gives_up(moved, victim), "the target has moved")
    hold.release()
    moved.group.until_translated()
    moved.group.ensure_no_harm()


def test_a_member_is_converted_at_an_epoch_that_has_moved_on(moved):
    """Nothing is taken from it: it need not rejoin, and its commits name its old generation."""
    clients = moved.group.form()
    last = clients[-1]
    generation, before = last.generation, last.owned
    hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, last.member_id)
    moved.policy("translate")
    moved.until_held(hold)
    moved.group.move_group_epoch()
    hold.release()
    moved.group.until_translated()
    epochs = {
        one.member_id: one.member_epoch for one in moved.group.kafka.describe(moved.group.group).members
    }
    assert epochs[last.member_id] > generation
    assert (last.generation, last.owned, last.revoked) == (generation, before, 0)
    assert moved.commit(last)() == ErrorCode.none
    moved.group.ensure_no_harm()


def _gives_up(moved, client):
    view = moved.group.kafka.describe(moved.group.group)
    targets = {one.member_id: one.target.get(client.topic, frozenset()) for one in view.members}
    return client.owned - targets[client.member_id]


# -- 1.3: a refused heartbeat is not free ---------------------------------------------------------------------


def test_nothing_is_sent_to_a_group_that_rebalances(moved):
    """A heartbeat would fail the JoinGroups that wait, also if it is refused."""
    slow, *_ = moved.group.form()
    slow.is_silent = True
    moved.group.client(straight=True)
    moved.group.until(
        lambda: moved.group.kafka.describe_classic(moved.group.group).group_state == "PreparingRebalance",
        "the group rebalances",
    )
    moved.policy("translate")
    moved.group.go_on(2.5)
    assert moved.relay.calls(ApiKey.CONSUMER_GROUP_HEARTBEAT, moved.group.group) == []
    slow.is_silent = False
    moved.group.until_shared()
    moved.group.ensure_no_harm()


# -- 1.4: the way back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_newcomer_is_assigned_a_members_partitions_just_before_its_join_group_of_the_way_back(
    moved, cooperative
):
    clients = moved.group.form(2, cooperative=cooperative)  # of each the newcomer gets one partition
    moved.translate()
    victim = clients[-1]
    hold = moved.relay.hold(ApiKey.JOIN_GROUP, victim.member_id)
    moved.policy("observe")
    moved.until_held(hold)
    native = moved.group.native()
    moved.group.until(lambda: _gives_up(moved, victim) or not victim.owned, "the target has moved")
    hold.release()
    moved.group.until_shared()
    native.leave()
    moved.group.until_classic()
    moved.group.ensure_no_harm()


@pytest.mark.parametrize("hangs_up", [False, True], ids=["on another connection", "on a new one"])
def test_a_heartbeat_under_way_crosses_the_join_group_of_the_way_back(moved, hangs_up):
    """It would make the member one of the new protocol again, without an error: the JoinGroup waits for its answer."""
    *_, victim = moved.group.form()
    moved.translate()
    joins = len(moved.relay.calls(ApiKey.JOIN_GROUP, victim.member_id))
    hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, victim.member_id)
    moved.until_held(hold)
    moved.policy("observe")
    victim.join_elsewhere(hangs_up=hangs_up)
    moved.group.go_on(1.0)
    assert len(moved.relay.calls(ApiKey.JOIN_GROUP, victim.member_id)) == joins
    hold.release()
    moved.group.until_classic()
    moved.group.ensure_no_harm()


# -- 1.5: static members ------------------------------------------------------------------------------------


def test_the_last_static_member_goes_back_while_the_group_epoch_is_ahead(moved):
    """Its JoinGroup would make a group without a helper classic at once, and the others laggards."""
    clients = moved.group.form(instance_id=lambda number: f"instance-{number}")
    moved.translate()
    hold = moved.relay.hold(ApiKey.JOIN_GROUP, clients[-1].member_id)
    moved.policy("observe")
    moved.until_held(hold)
    moved.group.go_on(1.0)
    moved.group.move_group_epoch()
    hold.release()
    moved.group.until_classic()
    moved.group.ensure_no_harm()


# -- 1.6: the last member of the new protocol ends, and others lag behind: the stand-in ------------------------


@pytest.mark.parametrize("ends", ["leaves", "is silent"])
def test_the_last_member_of_the_new_protocol_ends_while_classic_ones_have_an_older_epoch(moved, ends):
    """The broker would answer them ILLEGAL_GENERATION. A helper joins first, and leaves when they have come."""
    kafka, group_id = moved.group.kafka, moved.group.group
    last = moved.group.client(session_timeout_ms=LAST_SESSION_MS)
    moved.policy("translate")
    moved.group.until_translated()
    last.is_silent, called_at = True, time.monotonic()  # so it does not go back; it works on
    moved.policy("observe")
    others = [moved.group.client() for _ in range(2)]
    moved.group.until(lambda: all(one.is_calm for one in others), "the others have joined as classic members")
    before = moved.helpers
    moved.group.move_group_epoch()
    view = kafka.describe(group_id)
    assert {one.member_id for one in view.members if one.member_type == "consumer"} == {last.member_id}
    assert all(one.generation < view.group_epoch for one in others)
    moved.group.watch()
    if ends == "leaves":
        last.leave_group()
    else:
        left_s = LAST_SESSION_MS / 1000 - (time.monotonic() - called_at)
        eventually(lambda: last.member_id not in members(kafka, group_id), what="its session is over")
        assert left_s > 0
        last.silence()
        moved.group.watch()
    moved.group.until_classic()
    moved.group.ensure_no_harm()
    assert moved.helpers > before


# -- 1.8: calls that cross ----------------------------------------------------------------------------------


def test_a_commit_is_on_its_way_on_another_connection(moved):
    """Below version 9 a commit of a member of the new protocol is refused: the conversion waits."""
    committer, *_ = moved.group.form()
    hold = moved.relay.hold(ApiKey.OFFSET_COMMIT, committer.member_id)
    answer = moved.commit(committer)
    moved.until_held(hold)
    moved.policy("translate")
    moved.group.go_on(3.0)
    assert members(moved.group.kafka, moved.group.group).get(committer.member_id) != "consumer"
    hold.release()
    assert answer() == ErrorCode.none
    moved.group.until_translated()
    moved.group.ensure_no_harm()
    assert [one.revoked for one in moved.group.clients] == [0, 0, 0]


# -- 1.9: JoinGroups that are held ---------------------------------------------------------------------------


def test_members_whose_join_groups_are_held_for_longer_than_their_session_remain(moved):
    """On the way back, for a member that does not rejoin: not longer than three quarters of the rebalance timeout."""
    *_, slow = moved.group.form(session_timeout_ms=2_000, rebalance_timeout_ms=4_000)
    moved.translate()
    hold = moved.relay.hold(ApiKey.JOIN_GROUP, slow.member_id)
    moved.policy("observe")
    moved.until_held(hold)
    moved.group.go_on(2.5)
    hold.release()
    moved.group.until_classic()
    moved.group.ensure_no_harm()


# -- 1.10: lost answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["a member", "the helper"])
def test_the_answer_to_the_heartbeat_that_converts_is_lost(moved, of):
    clients = moved.group.form()
    lost = moved.relay.lose_answer(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, HELPER if of == "the helper" else clients[-1].member_id
    )
    moved.policy("translate")
    moved.until_held(lost)
    moved.group.until_translated()
    moved.group.ensure_no_harm()


def test_the_answer_is_lost_and_the_group_epoch_moves_before_the_call_is_repeated(moved):
    clients = moved.group.form()
    victim = clients[-1]
    lost = moved.relay.lose_answer(ApiKey.CONSUMER_GROUP_HEARTBEAT, victim.member_id)
    moved.policy("translate")
    moved.until_held(lost)
    moved.group.move_group_epoch()
    again = moved.relay.lose_answer(ApiKey.CONSUMER_GROUP_HEARTBEAT, victim.member_id)
    moved.until_held(again)
    moved.group.move_group_epoch()
    moved.group.until_translated()
    moved.group.ensure_no_harm()


# -- 1.11 and the timers ----------------------------------------------------------------------------------------


def test_a_converted_client_that_dies_is_ended_by_its_own_session_timeout(moved):
    """Not by the broker's session of members of the new protocol."""
    *_, dead = moved.group.form(session_timeout_ms=2_000)
    moved.translate()
    dead.silence()
    moved.group.until_shared()
    moved.group.ensure_no_harm()


def test_the_timers_of_the_classic_membership_end_no_member_after_two_moves_in_a_rebalance_timeout(moved):
    """The broker's timer for a 27 outlives the change to a classic group and back."""
    moved.group.form(rebalance_timeout_ms=6_000)
    for _ in range(2):
        moved.translate()
        moved.back()
    moved.translate()
    moved.group.go_on(7.0)
    moved.group.ensure_no_harm()


def test_a_group_without_a_place_for_the_helper_stays_classic_and_nobody_notices(
    own_kafka, folder: Path, group
):
    cluster = own_kafka(overrides={"group.consumer.max.size": "3"})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with behind_relay(kafka, folder, group, PARTITIONS) as moved:
        clients = moved.group.form()
        moved.policy("translate")
        moved.group.until(lambda: moved.helpers, "a helper has tried to join")
        moved.group.go_on(2.0)
        assert kafka.describe_classic(group).group_state == "Stable"
        assert [one.revoked for one in clients] == [0, 0, 0]
        moved.group.ensure_no_harm()
