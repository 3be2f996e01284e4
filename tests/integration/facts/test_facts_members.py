"""What brokers really do with members of groups, asked of one by hand: see docs/evidence/facts.md."""

import struct
import time

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from support import raw
from support.broker import Kafka
from support.raw_member import Offer, RawMember
from support.raw_new_member import LEAVE, STATIC_LEAVE, RawNewMember, partitions_of
from support.waiting import eventually

PARTITIONS = 4
NOBODY = "5d3f2f0e-5a57-4b6a-9a0c-0123456789ab"

pytestmark = pytest.mark.kafka


# -- joining, epochs -----------------------------------------------------------------------------------------


def test_a_heartbeat_with_epoch_0_creates_the_group_and_carries_the_assignment(kafka, alone):
    assert kafka.describe(alone.group).state == "Stable"
    assert alone.epoch > 0


def test_the_first_member_of_a_group_has_epoch_1_before_4_3_and_a_higher_one_since(newcomer, kafka):
    newcomer.join()
    assert (newcomer.epoch == 1) == (kafka.version < "4.3")


def test_epoch_0_of_an_existing_member_is_accepted_since_4_2(kafka, alone):
    answer = alone.full(epoch=0)
    if kafka.version < "4.2":
        assert answer.error_code == ErrorCode.fenced_member_epoch
    else:
        assert answer.error_code == ErrorCode.none


def test_who_has_left_with_minus_1_joins_under_the_same_id_in_every_version(alone):
    assert alone.beat(LEAVE).error_code == ErrorCode.none
    assert alone.full(epoch=0).error_code == ErrorCode.none


def test_a_member_may_join_without_topics(kafka, alone):
    """As a client does that subscribes to a pattern which matches nothing yet."""
    with RawNewMember(kafka, alone.group, alone.topic) as member:
        answer = member.full(epoch=0, topics=())
        assert (answer.error_code, member.owned) == (ErrorCode.none, frozenset())
        assert member.beat().error_code == ErrorCode.none


def test_a_static_member_is_refused_its_own_id_until_it_says_that_it_is_away(kafka, group, topic):
    with RawNewMember(kafka, group, topic, instance_id="one") as old:
        old.join()
        with RawNewMember(kafka, group, topic, instance_id="one") as new:
            assert new.full(epoch=0).error_code == ErrorCode.unreleased_instance_id
        assert old.full(epoch=0).error_code == ErrorCode.unreleased_instance_id
        assert old.beat(STATIC_LEAVE).error_code == ErrorCode.none
        assert old.full(epoch=0).error_code == ErrorCode.none


def test_an_assignor_alone_is_taken_in_a_plain_heartbeat_and_moves_the_group_epoch_since_4_4(kafka, alone):
    alone.full(alone.owned)  # it has said nothing of an assignor: the broker's default counts
    before = kafka.describe(alone.group)
    assert before.assignor == "uniform"
    answer = alone.beat(server_assignor="range")
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, None)
    after = eventually(
        lambda: kafka.describe(alone.group), lambda seen: seen.assignor == "range", what="it has range"
    )
    if kafka.version < "4.4":  # no new assignment for that, neither now nor by a full request
        assert after.group_epoch == before.group_epoch
        assert alone.full(alone.owned).member_epoch == before.group_epoch
    else:
        assert after.group_epoch == before.group_epoch + 1
        eventually(
            lambda: alone.beat().member_epoch, lambda epoch: epoch == after.group_epoch, what="it is assigned"
        )
    assert alone.beat(server_assignor="magic").error_code == ErrorCode.unsupported_assignor


def test_a_member_epoch_moves_in_its_own_heartbeats_only(kafka, alone, newcomer):
    before = alone.epoch
    newcomer.join()
    eventually(
        lambda: kafka.describe(alone.group), lambda seen: seen.group_epoch > before, what="the group moved on"
    )
    epochs = {member.member_id: member.member_epoch for member in kafka.describe(alone.group).members}
    assert epochs[alone.member_id] == before


def test_a_member_that_has_to_revoke_keeps_its_epoch_until_it_acknowledges(kafka, alone, newcomer):
    before = alone.epoch
    newcomer.join()
    assert alone.until_asked_back().member_epoch == before
    assert alone.full(alone.owned).member_epoch > before


# -- owned lists ---------------------------------------------------------------------------------------------


def test_a_null_owned_list_acknowledges_nothing(kafka, alone, newcomer):
    newcomer.join()
    alone.until_asked_back()
    alone.beat()
    newcomer.full()
    assert newcomer.owned == frozenset()
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)
    assert not newcomer.owned & alone.owned


def test_an_owned_list_releases_everything_that_it_omits_even_what_was_not_asked_back(kafka, alone, newcomer):
    newcomer.join()
    alone.until_asked_back()
    kept = alone.owned
    answer = alone.full(())
    assert answer.error_code == ErrorCode.none
    newcomer.until_owns(PARTITIONS // 2)
    assert not newcomer.owned & kept  # they are assigned to the first still, which must ask for them again
    assert partitions_of(answer) == kept


def test_a_lost_answer_is_not_repeated_by_plain_heartbeats_but_by_a_full_request(kafka, alone, newcomer):
    newcomer.join()
    alone.until_asked_back()
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)
    assert newcomer.beat().assignment is None
    assert partitions_of(newcomer.full(newcomer.owned)) == newcomer.owned


def test_the_previous_epoch_is_fenced_with_a_null_list_and_accepted_with_an_owned_list(alone, epoch_before):
    assert alone.beat(epoch_before).error_code == ErrorCode.fenced_member_epoch
    assert alone.full(alone.owned, epoch=epoch_before).error_code == ErrorCode.none


# -- timers, ways out ----------------------------------------------------------------------------------------


def test_the_revocation_timer_runs_from_the_brokers_decision_and_removes_the_member(
    kafka, group, topic, newcomer
):
    with RawNewMember(kafka, group, topic) as slow:
        slow.join(rebalance_timeout_ms=1_500).until_owns(PARTITIONS)
        slow.full(slow.owned, rebalance_timeout_ms=1_500)
        newcomer.join()
        slow.until_asked_back()
        eventually(
            slow.beat,
            lambda answer: answer.error_code == ErrorCode.unknown_member_id,
            what="it is removed although it heartbeats",
        )
        newcomer.until_owns(PARTITIONS)


def test_epoch_minus_1_is_not_checked_against_the_members_epoch(kafka, alone, group, topic):
    with RawNewMember(kafka, group, topic, member_id=alone.member_id) as stranger:
        assert stranger.beat(LEAVE).error_code == ErrorCode.none
    assert alone.beat().error_code in {ErrorCode.unknown_member_id, ErrorCode.group_id_not_found}


def test_epoch_minus_2_frees_what_is_pending_revocation_at_once(kafka, group, topic, newcomer):
    with RawNewMember(kafka, group, topic, instance_id="one") as static:
        static.join().until_owns(PARTITIONS)
        newcomer.join()
        static.until_asked_back()
        assert static.beat(STATIC_LEAVE).error_code == ErrorCode.none
        newcomer.until_owns(PARTITIONS // 2)  # its own share stays with the static member


def test_leave_group_removes_members_of_the_new_protocol_by_id_and_by_instance_id(kafka, group, topic):
    with (
        RawNewMember(kafka, group, topic) as dynamic,
        RawNewMember(kafka, group, topic, instance_id="one") as static,
    ):
        dynamic.join()
        static.join()
        answer = dynamic.call(
            LeaveGroupRequest(
                group_id=group,
                members=(
                    MemberIdentity(member_id=dynamic.member_id),
                    MemberIdentity(member_id="", group_instance_id="one"),
                ),
            )
        )
        assert [member.error_code for member in answer.members] == [0, 0]
        assert kafka.describe(group).members == ()


def test_a_group_that_is_gone_is_not_found_at_any_epoch_but_0(kafka, newcomer):
    assert newcomer.beat(3).error_code == ErrorCode.group_id_not_found
    assert newcomer.beat(LEAVE).error_code == ErrorCode.group_id_not_found


def test_a_group_that_was_converted_back_is_not_found_at_any_epoch_but_0(kafka, group, topic):
    """Its last member of the new protocol leaves, and one that is classic stays."""
    with RawNewMember(kafka, group, topic) as new, RawMember(kafka.bootstrap, group, topic) as classic:
        new.join()
        classic.join()
        assert new.beat(LEAVE).error_code == ErrorCode.none
        eventually(
            lambda: kafka.describe_classic(group).group_state,
            lambda state: state != "Dead",
            what="it is classic",
        )
        assert new.beat(3).error_code == ErrorCode.group_id_not_found
        assert new.beat(LEAVE).error_code == ErrorCode.group_id_not_found


def test_fenced_instance_id_needs_the_instance_id_in_the_heartbeat(kafka, group, topic):
    with RawNewMember(kafka, group, topic, instance_id="one") as old:
        old.join()
        old.beat(STATIC_LEAVE)
        with RawNewMember(kafka, group, topic, instance_id="one") as new:
            new.join()
            assert old.beat(1).error_code == ErrorCode.fenced_instance_id
            assert old.beat(1, instance_id=False).error_code == ErrorCode.unknown_member_id


# -- assignments in batches ----------------------------------------------------------------------------------


def test_an_answer_without_partitions_does_not_say_whether_more_will_come(kafka, alone, newcomer):
    answer = newcomer.join().beat()
    assert newcomer.owned == frozenset()
    assert set(answer.__slots__) == {
        "throttle_time",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval",
        "assignment",
    }
    alone.until_asked_back()
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)


# -- describing ----------------------------------------------------------------------------------------------


def test_describe_groups_calls_a_consumer_group_dead(kafka, alone):
    assert kafka.describe_classic(alone.group).group_state == "Dead"
    frame = struct.pack(">hhihb", 15, 6, 1, -1, 0)  # DescribeGroups v6, which kio may not know: header
    group = alone.group.encode()
    frame += bytes([2, len(group) + 1]) + group + bytes([0, 0])
    with raw.to_coordinator(kafka.bootstrap, alone.group) as connection:
        connection.send_bytes(struct.pack(">i", len(frame)) + frame)
        answer = connection.receive_frame()
    # correlation id, tags, throttle time, array length, error code
    assert struct.unpack(">h", answer[10:12])[0] == ErrorCode.group_id_not_found


def test_consumer_group_describe_shows_partitions_pending_revocation_since_4_3(kafka, alone, newcomer):
    everything = alone.owned
    newcomer.join()
    alone.until_asked_back()
    (seen,) = [
        member for member in kafka.describe(alone.group).members if member.member_id == alone.member_id
    ]
    pending_is_shown = seen.assignment.get(alone.topic, frozenset()) == everything
    assert pending_is_shown == (kafka.version >= "4.3")


def test_the_client_host_of_a_member_is_the_address_that_connects(kafka, alone):
    assert kafka.describe(alone.group).members[0].client_host == "/127.0.0.1"


# -- classic and new together --------------------------------------------------------------------------------


def test_a_conversion_fails_the_join_groups_that_wait_with_rebalance_in_progress(
    kafka, group, topic, newcomer
):
    with (
        RawMember(kafka.bootstrap, group, topic) as first,
        RawMember(kafka.bootstrap, group, topic) as second,
    ):
        first.join()
        first.sync(PARTITIONS)
        second.send_join()  # waits for the first to join again
        _until_it_rebalances(first)
        newcomer.join()
        with pytest.raises(AssertionError, match="rebalance_in_progress"):
            second.receive_join()


@pytest.mark.parametrize("user_data", [None, b"what an assignor keeps"])
def test_a_conversion_is_refused_while_assignments_carry_user_data(kafka, group, topic, newcomer, user_data):
    with RawMember(kafka.bootstrap, group, topic, user_data=user_data) as classic:
        classic.join()
        classic.sync(PARTITIONS)
        answer = newcomer.full(epoch=0)
    if user_data is None:
        assert answer.error_code == ErrorCode.none
    else:
        assert answer.error_code != ErrorCode.none
        assert kafka.describe(group) is None


def test_a_conversion_is_refused_while_a_subscription_is_cut_short(kafka, group, topic, newcomer):
    with RawMember(kafka.bootstrap, group, topic, cut_short=True) as classic:
        classic.join()
        classic.sync(PARTITIONS)
        assert newcomer.full(epoch=0).error_code == ErrorCode.group_id_not_found
        classic.leave()
        assert newcomer.full(epoch=0).error_code == ErrorCode.none


def test_a_classic_member_whose_subscription_is_cut_short_may_not_join_new_ones(kafka, alone):
    with RawMember(kafka.bootstrap, alone.group, alone.topic, cut_short=True) as classic:
        classic.member_id = NOBODY
        is_fatal = kafka.version > "4.3.1"  # KAFKA-20662
        assert classic.refused() == (
            ErrorCode.inconsistent_group_protocol if is_fatal else ErrorCode.unknown_server_error
        )


def test_a_conversion_that_fails_in_the_first_rebalance_leaves_members_waiting_for_a_whole_timeout(own_kafka):
    """Of the pending JoinGroups it fails each; whoever is not back when the delay ends, is waited for."""
    cluster = own_kafka(overrides={"group.initial.rebalance.delay.ms": "3000"})  # as stock brokers have
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    one = Offer(instance_id="one")
    with (
        RawMember(kafka.bootstrap, "g", topic, offer=one, rebalance_timeout_ms=6_000) as member,
        RawNewMember(kafka, "g", topic) as newcomer,
    ):
        member.send_join()
        eventually(
            lambda: kafka.describe_classic("g").group_state == "PreparingRebalance", what="it has joined"
        )
        assert newcomer.full(epoch=0).error_code == ErrorCode.unknown_server_error
        with pytest.raises(AssertionError, match="rebalance_in_progress"):
            member.receive_join()

        log = cluster.folder / "node-1" / "kafka.log"
        said = "Group g could not complete rebalance because no members rejoined"
        eventually(lambda: said in log.read_text(), what="the delay has ended")
        since = time.monotonic()
        member.join()
        assert time.monotonic() - since > 4, "nobody else has to join"


def test_a_conversion_is_refused_while_the_group_is_larger_than_a_consumer_group_may_be(own_kafka):
    cluster = own_kafka(overrides={"group.consumer.max.size": "1"})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    with (
        RawMember(kafka.bootstrap, "g", topic) as first,
        RawMember(kafka.bootstrap, "g", topic) as second,
        RawNewMember(kafka, "g", topic) as newcomer,
    ):
        first.join()
        first.sync(PARTITIONS)
        second.send_join()
        eventually(
            first.heartbeat, lambda code: code == ErrorCode.rebalance_in_progress, what="it rebalances"
        )
        first.join()
        second.receive_join()
        first.sync(PARTITIONS)
        second.sync(PARTITIONS)
        assert newcomer.full(epoch=0).error_code == ErrorCode.group_id_not_found
        second.leave()
        eventually(
            first.heartbeat, lambda code: code == ErrorCode.rebalance_in_progress, what="it rebalances"
        )
        first.join()
        first.sync(PARTITIONS)
        # Converted or not, there is room for one member only.
        assert newcomer.full(epoch=0).error_code == ErrorCode.group_max_size_reached


def test_with_migration_policy_disabled_a_classic_member_may_not_join_new_ones_since_4_3(own_kafka):
    cluster = own_kafka(overrides={"group.consumer.migration.policy": "disabled"})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    with RawNewMember(kafka, "g", topic) as member, RawMember(kafka.bootstrap, "g", topic) as classic:
        member.join()
        classic.member_id = NOBODY
        classic.send_join()
        if kafka.version >= "4.3":
            with pytest.raises(AssertionError, match="inconsistent_group_protocol"):
                classic.receive_join()
        else:
            classic.receive_join()
    with RawMember(kafka.bootstrap, "h", topic) as classic, RawNewMember(kafka, "h", topic) as member:
        classic.join()
        classic.sync(PARTITIONS)
        assert member.full(epoch=0).error_code == ErrorCode.group_id_not_found  # not converted


def test_a_classic_member_of_a_consumer_group_joins_again_at_every_epoch(kafka, group, topic):
    """Its partitions stay the same: the newcomer has another topic."""
    others = kafka.new_topic(partitions=PARTITIONS)
    with (
        RawNewMember(kafka, group, others) as native,
        RawMember(kafka.bootstrap, group, topic) as classic,
        RawNewMember(kafka, group, others) as newcomer,
    ):

        def told() -> int:
            native.beat()  # since 4.3 a new assignment is made in a heartbeat, once the assignment interval is over
            return classic.heartbeat()

        native.join().until_owns(PARTITIONS)
        classic.join()
        share = classic.sync()
        if not share:
            eventually(
                told, lambda code: code == ErrorCode.rebalance_in_progress, what="it has been assigned some"
            )
            classic.join()
            share = classic.sync()
        assert share == {topic: frozenset(range(PARTITIONS))}
        assert classic.heartbeat() == ErrorCode.none

        newcomer.join()
        eventually(
            told, lambda code: code == ErrorCode.rebalance_in_progress, what="it is told to join again"
        )
        classic.join(share)
        assert classic.sync() == share


def test_a_restart_forgets_the_rebalance_after_a_downgrade_and_what_the_last_new_member_had(own_kafka):
    cluster = own_kafka()
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    with RawNewMember(kafka, "g", topic) as new, RawMember(kafka.bootstrap, "g", topic) as classic:
        new.join().until_owns(PARTITIONS)
        classic.join()
        assert classic.sync() == {}
        new.until_asked_back()
        new.full(new.owned)
        _until_it_rebalances(classic)
        classic.join()
        share = classic.sync()[topic]
        assert len(share) == PARTITIONS // 2
        assert new.beat(LEAVE).error_code == ErrorCode.none
        assert classic.heartbeat() == ErrorCode.rebalance_in_progress

    cluster.kill_broker(cluster.brokers[0].node_id)
    cluster.start_broker(cluster.brokers[0].node_id)

    with RawMember(kafka.bootstrap, "g", topic) as again:
        again.member_id, again.generation = classic.member_id, classic.generation
        eventually(
            again.heartbeat, lambda code: code != ErrorCode.not_coordinator, what="it is the coordinator"
        )
        assert again.heartbeat() == ErrorCode.none
        assert again.sync()[topic] == share
    assert kafka.describe_classic("g").group_state == "Stable"


def _until_it_rebalances(member: RawMember) -> None:
    eventually(member.heartbeat, lambda code: code == ErrorCode.rebalance_in_progress, what="it rebalances")
