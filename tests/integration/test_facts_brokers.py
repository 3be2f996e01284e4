"""What brokers really do, asked of a real one by hand: what the translation relies on. docs/facts.md has the table."""

import datetime as dt
import struct
import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.add_offsets_to_txn.v1.request import AddOffsetsToTxnRequest
from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsV0
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsV5
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v1.request import InitProducerIdRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v8.request import OffsetCommitRequest as OffsetCommitV8
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition as CommitPartitionV8
from kio.schema.offset_commit.v8.request import OffsetCommitRequestTopic as CommitTopicV8
from kio.schema.offset_commit.v9.request import OffsetCommitRequest as OffsetCommitV9
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition as CommitPartitionV9
from kio.schema.offset_commit.v9.request import OffsetCommitRequestTopic as CommitTopicV9
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.txn_offset_commit.v3.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support import raw
from support.broker import Kafka
from support.raw_member import RawMember
from support.raw_new_member import LEAVE, STATIC_LEAVE, RawNewMember, partitions_of, topic_id
from support.waiting import eventually

PARTITIONS = 4
TRANSACTION = 1  # the key type of FindCoordinator
NOBODY = "5d3f2f0e-5a57-4b6a-9a0c-0123456789ab"

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka):
    return kafka.new_topic(partitions=PARTITIONS)


@pytest.fixture
def alone(kafka, group, topic):
    """The only member, with all partitions."""
    with RawNewMember(kafka, group, topic) as member:
        yield member.join().until_owns(PARTITIONS)


@pytest.fixture
def newcomer(kafka, group, topic):
    with RawNewMember(kafka, group, topic) as member:
        yield member


def asked_back(member):
    """Plain heartbeats until the broker wants partitions back; the answer that says so."""
    before = member.owned
    return eventually(
        member.beat,
        lambda answer: answer.assignment is not None and partitions_of(answer) < before,
        what="partitions are asked back",
    )


# -- joining, epochs -----------------------------------------------------------------------------------------


def test_a_heartbeat_with_epoch_0_creates_the_group_and_carries_the_assignment(kafka, alone):
    assert kafka.describe(alone.group).state == "Stable"
    assert alone.epoch > 0


def test_epoch_0_of_an_existing_member_is_accepted_since_4_2(kafka, alone):
    answer = alone.full(epoch=0)
    if kafka.version < "4.2":
        assert answer.error_code == ErrorCode.fenced_member_epoch
    else:
        assert answer.error_code == ErrorCode.none


def test_a_static_member_is_refused_its_own_id_until_it_says_that_it_is_away(kafka, group, topic):
    with RawNewMember(kafka, group, topic, instance_id="one") as old:
        old.join()
        with RawNewMember(kafka, group, topic, instance_id="one") as new:
            assert new.full(epoch=0).error_code == ErrorCode.unreleased_instance_id
        assert old.full(epoch=0).error_code == ErrorCode.unreleased_instance_id
        assert old.beat(STATIC_LEAVE).error_code == ErrorCode.none
        assert old.full(epoch=0).error_code == ErrorCode.none


def test_an_assignor_alone_is_taken_in_a_plain_heartbeat_and_counts_at_the_next_assignment(kafka, alone):
    alone.full(alone.owned)  # it has said nothing of an assignor: the broker's default counts
    before = kafka.describe(alone.group)
    assert before.assignor == "uniform"
    answer = alone.beat(server_assignor="range")
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, None)
    after = eventually(
        lambda: kafka.describe(alone.group), lambda seen: seen.assignor == "range", what="it has range"
    )
    assert (
        after.group_epoch == before.group_epoch
    )  # no new assignment for that, neither now nor by a full request
    assert alone.full(alone.owned).member_epoch == before.group_epoch
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
    assert asked_back(alone).member_epoch == before
    assert alone.full(alone.owned).member_epoch > before


# -- owned lists ---------------------------------------------------------------------------------------------


def test_a_null_owned_list_acknowledges_nothing(kafka, alone, newcomer):
    newcomer.join()
    asked_back(alone)
    alone.beat()
    newcomer.full()
    assert newcomer.owned == frozenset()
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)
    assert not newcomer.owned & alone.owned


def test_an_owned_list_releases_everything_that_it_omits_even_what_was_not_asked_back(kafka, alone, newcomer):
    newcomer.join()
    asked_back(alone)
    kept = alone.owned
    answer = alone.full(())
    assert answer.error_code == ErrorCode.none
    newcomer.until_owns(PARTITIONS // 2)
    assert not newcomer.owned & kept  # they are assigned to the first still, which must ask for them again
    assert partitions_of(answer) == kept


def test_a_lost_answer_is_not_repeated_by_plain_heartbeats_but_by_a_full_request(kafka, alone, newcomer):
    newcomer.join()
    asked_back(alone)
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)
    assert newcomer.beat().assignment is None
    assert partitions_of(newcomer.full(newcomer.owned)) == newcomer.owned


def test_the_previous_epoch_is_fenced_with_a_null_list_and_accepted_with_an_owned_list(
    kafka, alone, newcomer
):
    before = alone.epoch
    newcomer.join()
    asked_back(alone)
    alone.full(alone.owned)
    assert alone.epoch > before
    assert alone.beat(before).error_code == ErrorCode.fenced_member_epoch
    assert alone.full(alone.owned, epoch=before).error_code == ErrorCode.none


# -- timers, ways out ----------------------------------------------------------------------------------------


def test_the_revocation_timer_runs_from_the_brokers_decision_and_removes_the_member(
    kafka, group, topic, newcomer
):
    with RawNewMember(kafka, group, topic) as slow:
        slow.join(rebalance_timeout_ms=1_500).until_owns(PARTITIONS)
        slow.full(slow.owned, rebalance_timeout_ms=1_500)
        newcomer.join()
        asked_back(slow)
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
        asked_back(static)
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
    assert {name for name in answer.__slots__ if "pend" in name} == set()
    asked_back(alone)
    alone.full(alone.owned)
    newcomer.until_owns(PARTITIONS // 2)


# -- offsets -------------------------------------------------------------------------------------------------


def commit_v8(member, epoch, **who):
    at = CommitPartitionV8(partition_index=0, committed_offset=1, committed_metadata=None)
    identity = {"group_id": member.group, "member_id": member.member_id, **who}
    request = OffsetCommitV8(
        generation_id_or_member_epoch=epoch,
        topics=(CommitTopicV8(name=member.topic, partitions=(at,)),),
        **identity,
    )
    return member.call(request).topics[0].partitions[0].error_code


def commit_v9(member, epoch, **who):
    at = CommitPartitionV9(partition_index=0, committed_offset=1, committed_metadata=None)
    identity = {"group_id": member.group, "member_id": member.member_id, **who}
    request = OffsetCommitV9(
        generation_id_or_member_epoch=epoch,
        topics=(CommitTopicV9(name=member.topic, partitions=(at,)),),
        **identity,
    )
    return member.call(request).topics[0].partitions[0].error_code


def test_commits_of_new_members_need_version_9(alone):
    assert commit_v8(alone, alone.epoch) == ErrorCode.unsupported_version
    assert commit_v9(alone, alone.epoch) == ErrorCode.none


def test_a_commit_to_a_group_that_is_not_there_has_another_error_since_version_9(newcomer):
    assert commit_v8(newcomer, 3) == ErrorCode.illegal_generation
    assert commit_v9(newcomer, 3) == ErrorCode.group_id_not_found


def test_a_commit_never_says_that_the_instance_id_is_fenced(kafka, group, topic):
    with RawNewMember(kafka, group, topic, instance_id="one") as old:
        old.join()
        old.beat(STATIC_LEAVE)
        with RawNewMember(kafka, group, topic, instance_id="one") as new:
            new.join()
            refused = commit_v9(old, 1, group_instance_id="one")
    assert refused == ErrorCode.unknown_member_id


def test_a_commit_with_a_newer_epoch_is_stale_and_with_an_older_one_depends_on_the_version(
    kafka, alone, newcomer
):
    before = alone.epoch
    newcomer.join()
    asked_back(alone)
    alone.full(alone.owned)
    assert alone.epoch > before
    assert commit_v9(alone, alone.epoch + 1) == ErrorCode.stale_member_epoch
    kept = 0 in alone.owned
    older = commit_v9(alone, before)
    # KIP-1251 (4.3): an epoch counts that is not older than the partition's assignment to this member.
    assert older == (ErrorCode.none if kept and kafka.version >= "4.3" else ErrorCode.stale_member_epoch)


def test_a_transactional_commit_takes_new_members_in_old_versions_and_a_stale_epoch_is_an_illegal_generation(
    alone,
):
    transactional_id = f"txn-{alone.group}"
    coordinator = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=(transactional_id,))
    init = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout=dt.timedelta(seconds=30)
    )

    def ask():
        alone.call(coordinator)  # has the broker make its log of transactions
        return alone.call(init)

    producer = eventually(
        ask, lambda answer: answer.error_code == ErrorCode.none, what="there is a coordinator of transactions"
    )
    who = {
        "transactional_id": transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "group_id": alone.group,
    }
    assert alone.call(AddOffsetsToTxnRequest(**who)).error_code == ErrorCode.none

    def commit(epoch):
        at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            **who,
            generation_id=epoch,
            member_id=alone.member_id,
            topics=(TxnOffsetCommitRequestTopic(name=alone.topic, partitions=(at,)),),
        )
        return alone.call(request).topics[0].partitions[0].error_code

    assert commit(alone.epoch) == ErrorCode.none
    assert commit(alone.epoch + 1) == ErrorCode.illegal_generation


def test_offset_fetch_with_member_id_and_epoch_is_checked_strictly(alone):
    def fetch(member_id, epoch):
        asked = OffsetFetchRequestGroup(
            group_id=alone.group, member_id=member_id, member_epoch=epoch, topics=None
        )
        return alone.call(OffsetFetchRequest(groups=(asked,), require_stable=False)).groups[0].error_code

    assert fetch(alone.member_id, alone.epoch) == ErrorCode.none
    assert fetch(alone.member_id, alone.epoch + 1) == ErrorCode.stale_member_epoch
    assert fetch(NOBODY, alone.epoch) == ErrorCode.unknown_member_id
    assert fetch(None, -1) == ErrorCode.none


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
    asked_back(alone)
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
        eventually(
            first.heartbeat, lambda code: code == ErrorCode.rebalance_in_progress, what="it rebalances"
        )
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


# -- topics --------------------------------------------------------------------------------------------------


def test_a_recreated_topic_has_its_name_and_another_id(kafka):
    name = kafka.new_topic(partitions=1)
    before = topic_id(kafka, name)
    kafka.admin.delete_topics([name])[name].result(timeout=60)
    eventually(
        lambda: name in kafka.admin.list_topics(timeout=60).topics, lambda there: not there, what="it is gone"
    )
    kafka.new_topic(name=name, partitions=1)
    assert topic_id(kafka, name) != before


def test_a_heartbeat_needs_describe_on_every_topic_and_one_hidden_topic_empties_the_description(own_kafka):
    cluster = own_kafka(
        overrides={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    )
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    shown, hidden = kafka.new_topic("shown", partitions=1), kafka.new_topic("hidden", partitions=1)
    with RawNewMember(kafka, "g", hidden) as member:
        member.join().until_owns(1)
        everybody = AclBinding(
            ResourceType.TOPIC,
            hidden,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.DENY,
        )
        kafka.admin.create_acls([everybody])[everybody].result(timeout=60)
        eventually(
            lambda: member.full(member.owned).error_code,
            lambda code: code == ErrorCode.topic_authorization_failed,
            what="the heartbeat is refused",
        )
        question = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
        described = member.call(question).groups[0]
        assert described.error_code == ErrorCode.topic_authorization_failed
        assert described.members == ()
    with RawMember(kafka.bootstrap, "classic", hidden) as classic:
        classic.join()  # never asked for DESCRIBE
    with RawNewMember(kafka, "h", shown) as member:
        member.join()


# -- connections and versions --------------------------------------------------------------------------------


def test_one_request_of_a_connection_is_processed_at_a_time(kafka, topic, group):
    """A Heartbeat behind a Fetch that waits for records is answered when the Fetch is."""
    wait_s = 1.5

    def fetch(seconds):
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
        return FetchRequest(
            max_wait=dt.timedelta(seconds=seconds),
            min_bytes=1,
            topics=(FetchTopic(topic=topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )

    question = DescribeGroupsV5(groups=(group,), include_authorized_operations=False)
    with raw.to_coordinator(kafka.bootstrap, group) as connection:
        connection.call(question)
        eventually(
            lambda: connection.call(fetch(0)).responses[0].partitions[0].error_code,
            lambda code: code == ErrorCode.none,
            what="the partition can be read",
        )
        began = time.monotonic()
        waits = fetch(wait_s)
        connection.send(waits)
        connection.send(question)
        connection.receive(waits)
        connection.receive(question)
        assert time.monotonic() - began >= wait_s - 0.1


def test_join_group_v0_and_v1_are_missing_in_4_0_0_only(kafka):
    with raw.RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        offered = {api.api_key: api for api in connection.call(ApiVersionsV0()).api_keys}
    assert offered[11].min_version == (2 if kafka.version == "4.0.0" else 0)


def test_an_api_versions_request_of_the_future_is_answered_in_v0(kafka):
    with raw.RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        frame = struct.pack(">hhih", 18, 99, 7, -1) + bytes([0])
        connection.send_bytes(struct.pack(">i", len(frame)) + frame)
        answer = connection.receive_frame()
    correlation_id, error, count = struct.unpack(">ihi", answer[:10])
    assert (correlation_id, error) == (7, ErrorCode.unsupported_version)
    assert count * 6 == len(answer) - 10  # an array of v0: no compact lengths, no tags
