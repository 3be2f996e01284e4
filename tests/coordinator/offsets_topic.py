"""The records of one group, read back from Kafka's ``__consumer_offsets``."""

import time
from collections.abc import Callable
from typing import Any

from coordinator.java_order import absolute, text_hash
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs.records import decode_batch, decode_record, read_headers
from tests.coordinator.log_comparison import LoggedRecord

TOPIC = "__consumer_offsets"
LATEST = -1
MAX_BYTES = 50_000_000
TIMEOUT_S = 30
PAUSE_S = 0.005
Call = Callable[[Any, int], Any]


class OffsetsTopic:
    """The partition that one group's coordinator writes to, from now on. ``call`` sends a request to its leader."""

    def __init__(self, call: Call, group_id: str) -> None:
        self._call = call
        self._group_id = group_id
        topics = (m.MetadataRequestTopic(name=TOPIC),)
        described = call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        self._partition = absolute(text_hash(group_id)) % len(described.topics[0].partitions)
        self._start = self._end()

    def records(self) -> list[LoggedRecord]:
        """The group's records, oldest first."""
        found: list[LoggedRecord] = []
        offset, end = self._start, self._end()
        deadline = time.monotonic() + TIMEOUT_S
        while offset < end:
            assert time.monotonic() < deadline, f"the log ends at {end}, and cannot be read from {offset} on"
            content = self._content(offset)
            for position, header in read_headers(content):
                offset = header.next_offset
                if not header.is_control:
                    batch = decode_batch(content, position)
                    found += [(record.key or b"", record.value) for record in batch.records]
        return [pair for pair in found if self._is_ours(*pair)]

    def _is_ours(self, key: bytes, value: bytes | None) -> bool:
        record = decode_record(key, value)
        if record is None:
            return False
        named = getattr(record.key, "group_id", None) or getattr(record.key, "group", None)
        return named == self._group_id

    def _content(self, offset: int) -> bytes:
        partition = m.FetchRequestPartition(
            partition=self._partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES
        )
        request = m.FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            topics=(m.FetchRequestTopic(topic=TOPIC, partitions=(partition,)),),
        )
        answer = self._call(request, 12).responses[0].partitions[0]
        assert answer.error_code == 0, answer
        return bytes(answer.records or b"")

    def _end(self) -> int:
        partition = m.ListOffsetsRequestPartition(partition_index=self._partition, timestamp=LATEST)
        request = m.ListOffsetsRequest(
            replica_id=-1, topics=(m.ListOffsetsRequestTopic(name=TOPIC, partitions=(partition,)),)
        )
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._call(request, 7).topics[0].partitions[0]
            if answer.error_code == ErrorCode.NONE:
                return int(answer.offset)
            # Just after its start a broker does not lead its partitions yet.
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, answer
            assert time.monotonic() < deadline, answer
            time.sleep(PAUSE_S)
