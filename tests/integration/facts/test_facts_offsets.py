"""What brokers really do with offsets, asked of one by hand: see docs/evidence/facts.md."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8 import request as v8
from kio.schema.offset_commit.v9 import request as v9
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from support.raw_new_member import STATIC_LEAVE, RawNewMember
from support.transactional_commits import TransactionalCommits

NOBODY = "5d3f2f0e-5a57-4b6a-9a0c-0123456789ab"

pytestmark = pytest.mark.kafka


def commit(member, epoch, version=v9, **who):
    """The error of committing an offset to partition 0, in OffsetCommit v8 or v9."""
    at = version.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    identity = {"group_id": member.group, "member_id": member.member_id, **who}
    request = version.OffsetCommitRequest(
        generation_id_or_member_epoch=epoch,
        topics=(version.OffsetCommitRequestTopic(name=member.topic, partitions=(at,)),),
        **identity,
    )
    return member.call(request).topics[0].partitions[0].error_code


def test_commits_of_new_members_need_version_9(alone):
    assert commit(alone, alone.epoch, v8) == ErrorCode.unsupported_version
    assert commit(alone, alone.epoch) == ErrorCode.none


def test_a_commit_to_a_group_that_is_not_there_has_another_error_since_version_9(newcomer):
    assert commit(newcomer, 3, v8) == ErrorCode.illegal_generation
    assert commit(newcomer, 3) == ErrorCode.group_id_not_found


def test_a_commit_never_says_that_the_instance_id_is_fenced(kafka, group, topic):
    with RawNewMember(kafka, group, topic, instance_id="one") as old:
        old.join()
        old.beat(STATIC_LEAVE)
        with RawNewMember(kafka, group, topic, instance_id="one") as new:
            new.join()
            refused = commit(old, 1, group_instance_id="one")
    assert refused == ErrorCode.unknown_member_id


def test_a_commit_with_a_newer_epoch_is_stale_and_with_an_older_one_depends_on_the_version(
    kafka, alone, epoch_before
):
    assert commit(alone, alone.epoch + 1) == ErrorCode.stale_member_epoch
    kept = 0 in alone.owned
    older = commit(alone, epoch_before)
    # KIP-1251 (4.3): an epoch counts that is not older than the partition's assignment to this member.
    assert older == (ErrorCode.none if kept and kafka.version >= "4.3" else ErrorCode.stale_member_epoch)


def test_a_transactional_commit_takes_new_members_in_old_versions_and_a_stale_epoch_is_an_illegal_generation(
    alone,
):
    transaction = TransactionalCommits(alone.call, alone.group, alone.topic)
    assert transaction.commit(alone.member_id, alone.epoch) == ErrorCode.none
    assert transaction.commit(alone.member_id, alone.epoch + 1) == ErrorCode.illegal_generation


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
