"""Walks through the responses that may name brokers behind their records, without a look at any record.

A walk goes from length to length while the response is passed on in pieces, and ends where the node endpoints begin
(:mod:`proxy.wire.node_endpoints`). It is a chain of steps. Each reads a few bytes, says which step is next, and returns
where that begins, which may be far beyond the bytes that are here: so large records are never held back. A step for
which bytes are missing raises IndexError or struct.error before it has changed anything, and is taken again later.

The layouts are those of Kafka 4.4's responses, flexible versions only.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from protocol_codecs import ApiKey
from proxy.wire.varint import skip_tags, varint

START = 8
"""Where every walk begins: behind the frame's size and the correlation id."""

_TOPIC_ID = 16
_THROTTLE_TIME = 4
_FETCH_HEAD = 4 + 2 + 4  # throttle time, error code, session id
_FETCH_PARTITION = 4 + 2 + 8 + 8 + 8  # index, error code, high watermark, last stable and log start offset
_ABORTED_TRANSACTION = 8 + 8  # producer id, first offset
_PREFERRED_READ_REPLICA = 4
_PRODUCE_PARTITION = 4 + 2 + 8 + 8 + 8  # index, error code, base offset, append time, log start offset
_BATCH_INDEX = 4
_PARTITION_INDEX = 4
_LEADER = 4 + 4  # id, epoch
_DELIVERY_COUNT = 2

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")

_Step = Callable[[bytes, int], int]


class ResponseWalk(ABC):
    """What the walks have in common: topics, each with partitions, and tagged fields at the end of both."""

    _first_with_topic_id = 13

    def __init__(self, version: int) -> None:
        self._version = version
        self._has_topic_ids = version >= self._first_with_topic_id
        self._step: _Step | None = self._head
        self._topics = 0
        self._partitions = 0
        self._elements = 0  # of an array within a partition

    @property
    def ended(self) -> bool:
        """Whether it has come to where the node endpoints begin."""
        return self._step is None

    def advance(self, window: bytes, at: int) -> int:
        """Go on from ``at`` as far as the bytes reach; returns where the next step begins."""
        try:
            while self._step is not None and at <= len(window):
                at = self._step(window, at)
        except (IndexError, struct.error):
            pass  # the step needs bytes that are not here yet
        return at

    @abstractmethod
    def _head(self, data: bytes, at: int) -> int:
        """Step over what stands before the topics."""

    @abstractmethod
    def _partition(self, data: bytes, at: int) -> int:
        """Step over a partition, up to its records if it has any."""

    def _after_topics(self) -> _Step | None:
        return None

    def _begin_topics(self, data: bytes, at: int) -> int:
        count, at = varint(data, at)
        self._topics = max(count - 1, 0)
        self._step = self._next_topic()
        return at

    def _next_topic(self) -> _Step | None:
        return self._topic if self._topics else self._after_topics()

    def _topic(self, data: bytes, at: int) -> int:
        if self._has_topic_ids:
            at += _TOPIC_ID
        else:
            length, at = varint(data, at)
            at += max(length - 1, 0)
        count, at = varint(data, at)
        self._topics -= 1
        self._partitions = max(count - 1, 0)
        self._step = self._next_partition()
        return at

    def _next_partition(self) -> _Step:
        return self._partition if self._partitions else self._end_of_topic

    def _end_of_partition(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at)
        self._partitions -= 1
        self._step = self._next_partition()
        return at

    def _end_of_topic(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at)
        self._step = self._next_topic()
        return at


class ProduceWalk(ResponseWalk):
    """Produce from v10 on."""

    def _head(self, data: bytes, at: int) -> int:
        return self._begin_topics(data, skip_tags(data, at))

    def _partition(self, data: bytes, at: int) -> int:
        count, at = varint(data, at + _PRODUCE_PARTITION)
        self._elements = max(count - 1, 0)
        self._step = self._next_record_error()
        return at

    def _next_record_error(self) -> _Step:
        return self._record_error if self._elements else self._error_message

    def _record_error(self, data: bytes, at: int) -> int:
        length, at = varint(data, at + _BATCH_INDEX)
        at = skip_tags(data, at + max(length - 1, 0))
        self._elements -= 1
        self._step = self._next_record_error()
        return at

    def _error_message(self, data: bytes, at: int) -> int:
        length, at = varint(data, at)
        self._step = self._end_of_partition
        return at + max(length - 1, 0)

    def _after_topics(self) -> _Step:
        return self._throttle_time

    def _throttle_time(self, _data: bytes, at: int) -> int:
        self._step = None
        return at + _THROTTLE_TIME


class FetchWalk(ResponseWalk):
    """Fetch from v16 on."""

    def _head(self, data: bytes, at: int) -> int:
        return self._begin_topics(data, skip_tags(data, at) + _FETCH_HEAD)

    def _partition(self, data: bytes, at: int) -> int:
        count, at = varint(data, at + _FETCH_PARTITION)
        if count <= 1:
            return self._records(data, at)
        self._elements = count - 1
        self._step = self._aborted_transaction
        return at

    def _aborted_transaction(self, data: bytes, at: int) -> int:
        # A step for each: there may be many thousands, and what was walked through is not walked through again.
        at = skip_tags(data, at + _ABORTED_TRANSACTION)
        self._elements -= 1
        if not self._elements:
            self._step = self._records
        return at

    def _records(self, data: bytes, at: int) -> int:
        records, at = varint(data, at + _PREFERRED_READ_REPLICA)
        self._step = self._end_of_partition
        return at + max(records - 1, 0)


class ShareWalk(ResponseWalk):
    """What ShareFetch and ShareAcknowledge have in common; it also notes what the share session needs to know."""

    _first_with_topic_id = 0
    _first_with_lock_timeout = 1

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.error_code = 0
        """The error of the whole response; 0 if there is none."""
        self.lock_timeout_ms = 0
        """For how long records that are acquired or renewed now are locked, in milliseconds."""
        self.acquired = 0
        """How many offsets were acquired."""
        self.acknowledge_errors: list[int] = []
        """The error codes with which acknowledgements were refused, one for each partition where they were."""

    def _head(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at) + _THROTTLE_TIME
        (error_code,) = _INT16.unpack_from(data, at)
        length, at = varint(data, at + _INT16.size)
        self.error_code = error_code
        has_lock_timeout = self._version >= self._first_with_lock_timeout
        self._step = self._lock_timeout if has_lock_timeout else self._begin_topics
        return at + max(length - 1, 0)

    def _lock_timeout(self, data: bytes, at: int) -> int:
        (self.lock_timeout_ms,) = _INT32.unpack_from(data, at)
        self._step = self._begin_topics
        return at + _INT32.size

    def _acknowledged(self, data: bytes, at: int, then: _Step) -> int:
        """Read what became of the acknowledgements: an error code, and a message for it."""
        (error_code,) = _INT16.unpack_from(data, at)
        length, at = varint(data, at + _INT16.size)
        if error_code:
            self.acknowledge_errors.append(error_code)
        self._step = then
        return at + max(length - 1, 0)


class ShareFetchWalk(ShareWalk):
    """ShareFetch from v1 on."""

    def _partition(self, data: bytes, at: int) -> int:
        length, at = varint(data, at + _PARTITION_INDEX + _INT16.size)
        self._step = self._acknowledgements
        return at + max(length - 1, 0)

    def _acknowledgements(self, data: bytes, at: int) -> int:
        return self._acknowledged(data, at, self._leader_and_records)

    def _leader_and_records(self, data: bytes, at: int) -> int:
        records, at = varint(data, skip_tags(data, at + _LEADER))
        self._step = self._acquired_records
        return at + max(records - 1, 0)

    def _acquired_records(self, data: bytes, at: int) -> int:
        count, at = varint(data, at)
        self._elements = max(count - 1, 0)
        self._step = self._acquired if self._elements else self._end_of_partition
        return at

    def _acquired(self, data: bytes, at: int) -> int:
        first, last = _OFFSETS.unpack_from(data, at)
        at = skip_tags(data, at + _OFFSETS.size + _DELIVERY_COUNT)
        self.acquired += last - first + 1
        self._elements -= 1
        if not self._elements:
            self._step = self._end_of_partition
        return at


class ShareAcknowledgeWalk(ShareWalk):
    """ShareAcknowledge from v1 on."""

    _first_with_lock_timeout = 2

    def _partition(self, data: bytes, at: int) -> int:
        return self._acknowledged(data, at + _PARTITION_INDEX, self._leader)

    def _leader(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at + _LEADER)
        self._step = self._end_of_partition
        return at


WALKS: Mapping[int, type[ResponseWalk]] = {
    ApiKey.PRODUCE: ProduceWalk,
    ApiKey.FETCH: FetchWalk,
    ApiKey.SHARE_FETCH: ShareFetchWalk,
    ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeWalk,
}
"""By API key."""
