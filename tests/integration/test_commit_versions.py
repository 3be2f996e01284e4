"""OffsetCommit and OffsetFetch in versions that Kafka 4 lacks, on the wire by hand, and read back at the broker.

sarama up to 1.38 commits as a member with v1 (test_other_clients.py); here are commits of nobody, as old tools make.
"""

import struct

import pytest
from support import raw

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from proxy.wire.framing import request_frame

A_YEAR_AGO_MS = 1_760_000_000_000
OLD = {ApiKey.OFFSET_COMMIT: (0, 1), ApiKey.OFFSET_FETCH: (0,)}
"""What Kafka 4 lacks."""

pytestmark = pytest.mark.kafka


def ask(connection: raw.RawConnection, api_key: ApiKey, version: int, request: Message) -> Message:
    """kio does not know these versions."""
    connection.send_bytes(request_frame(api_key, version, 7, "old-tool", request))
    answer = connection.receive_frame()
    assert struct.unpack_from(">i", answer) == (7,)
    return decode(ALL_APIS[api_key].response, version, answer, 4)


@pytest.mark.parametrize("mode", ["translate", "observe"])
def test_commits_and_fetches_in_versions_that_kafka_4_lacks(entries, kafka, mode):
    entry = entries[mode]
    group, topic = entry.new_group(), kafka.new_topic(partitions=2)
    with raw.RawConnection(entry.bootstrap) as connection:
        for version in OLD[ApiKey.OFFSET_COMMIT]:
            partition = OffsetCommitRequestPartition(
                partition_index=version,
                committed_offset=40 + version,
                commit_timestamp=A_YEAR_AGO_MS if version == 1 else -1,
                committed_metadata=f"v{version}",
            )
            topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
            commit = OffsetCommitRequest(group_id=group, topics=topics)
            (committed,) = ask(connection, ApiKey.OFFSET_COMMIT, version, commit).topics
            assert [(at.partition_index, at.error_code) for at in committed.partitions] == [(version, 0)]
        assert kafka.committed(group) == {(topic, 0): 40, (topic, 1): 41}

        for version in OLD[ApiKey.OFFSET_FETCH]:
            topics = (OffsetFetchRequestTopic(name=topic, partition_indexes=(0, 1)),)
            fetch = OffsetFetchRequest(group_id=group, topics=topics)
            (fetched,) = ask(connection, ApiKey.OFFSET_FETCH, version, fetch).topics
            assert [(at.committed_offset, at.metadata, at.error_code) for at in fetched.partitions] == [
                (40, "v0", 0),
                (41, "v1", 0),
            ]
