"""Writes the journal to a Kafka topic: the JSON as the record's value, the group id as its key; and for which errors
a try again is of no use.

It produces to the leaders of the topic's partitions over its own connections. All events of a group go to one
partition, so they stay in order. A batch whose response was lost is written again: readers detect duplicates by
`replica`, `boot` and `seq`.
"""

import time
from collections.abc import Callable, Sequence
from zlib import crc32

import msgspec
import trio

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from protocol_codecs.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from protocol_codecs.record_batch import Record, RecordBatch, encode_batch
from proxy.config.schema import Address
from proxy.journal.journal import JournalError, JournalEvent
from proxy.transport.broker_calls import BrokerCalls, NoAnswerError
from proxy.transport.dialer import Open

_CLIENT_ID = "epochgate-journal"
_METADATA_VERSION = 9
_PRODUCE_VERSION = 9
"""Both are in every broker that has the new protocol."""
_ACKS_ALL = -1
_TIMEOUT_S = 10.0
_PERMANENT_ERRORS = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD}
)


_RETRIABLE = (OSError, ValueError, trio.TooSlowError, trio.BrokenResourceError, NoAnswerError)
"""Errors of an unreachable or misbehaving broker; ValueError if its Metadata has an invalid host name."""


class TopicSink:
    """Writes to ``topic`` in the cluster at the addresses of ``bootstrap``. ``open_`` opens its connections."""

    name = "topic"

    def __init__(self, topic: str, bootstrap: Callable[[], Sequence[Address]], open_: Open) -> None:
        self._topic = topic
        self._bootstrap = bootstrap
        self._open = open_
        self._brokers: dict[Address, BrokerCalls] = {}
        self._leaders: dict[int, Address] = {}

    async def write(self, events: list[JournalEvent]) -> None:
        """See :class:`proxy.journal.journal.Sink`."""
        try:
            with trio.fail_after(_TIMEOUT_S):
                await self._write(events)
        except _RETRIABLE as error:
            await self.close()
            raise JournalError(f"{self._topic}: {str(error) or type(error).__name__}", keep=True) from error
        except JournalError:
            await self.close()
            raise

    async def idle(self) -> None:
        """Do nothing: connections stay open."""

    async def close(self) -> None:
        """Close the connections; the next batch reopens them."""
        brokers, self._brokers, self._leaders = self._brokers, {}, {}
        for broker in brokers.values():
            await broker.aclose()

    async def _write(self, events: list[JournalEvent]) -> None:
        if not self._leaders:
            await self._find_leaders()
        partitions: dict[int, list[Record]] = {}
        now_ms = time.time_ns() // 1_000_000
        for event in events:
            key = event.group.encode() if event.group else None
            index = crc32(key or event.replica.encode()) % len(self._leaders)
            records = partitions.setdefault(index, [])
            delta = event.time_us // 1000 - now_ms
            records.append(Record(key, msgspec.json.encode(event), (), len(records), delta))
        for index, some in partitions.items():
            await self._produce(index, encode_batch(RecordBatch(tuple(some), base_timestamp=now_ms)))

    async def _find_leaders(self) -> None:
        last: Exception | None = None
        for address in self._bootstrap():
            try:
                broker = await self._broker(address)
                break
            except (OSError, ValueError, trio.BrokenResourceError) as error:
                last = error
        else:
            raise JournalError(f"{self._topic}: no broker can be reached: {last}", keep=True)
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=self._topic),), allow_auto_topic_creation=False
        )
        response = await broker.call(ApiKey.METADATA, _METADATA_VERSION, request, MetadataResponse)
        (topic,) = response.topics
        if topic.error_code != ErrorCode.NONE:
            raise JournalError(f"{self._topic}: {error_name(topic.error_code)}", keep=True)
        nodes = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        leaders = {one.partition_index: nodes.get(one.leader_id) for one in topic.partitions}
        if not leaders or None in leaders.values() or sorted(leaders) != list(range(len(leaders))):
            raise JournalError(f"{self._topic}: a partition has no leader", keep=True)
        self._leaders = {index: address for index, address in leaders.items() if address is not None}

    async def _broker(self, address: Address) -> BrokerCalls:
        broker = self._brokers.get(address)
        if broker is None:
            broker = self._brokers[address] = BrokerCalls(
                await self._open(address.host, address.port), _CLIENT_ID
            )
        return broker

    async def _produce(self, index: int, batch: bytes) -> None:
        broker = await self._broker(self._leaders[index])
        partition = ProduceRequestPartition(index=index, records=batch)
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=int(_TIMEOUT_S * 1000),
            topic_data=(ProduceRequestTopic(name=self._topic, partition_data=(partition,)),),
        )
        response = await broker.call(ApiKey.PRODUCE, _PRODUCE_VERSION, request, ProduceResponse)
        codes = [one.error_code for topic in response.responses for one in topic.partition_responses]
        if len(codes) != 1:
            raise NoAnswerError(
                f"the answer to Produce is about {len(codes)} partitions, and the request was about 1"
            )
        code = codes[0]
        if code != ErrorCode.NONE:
            raise JournalError(f"{self._topic}: {error_name(code)}", keep=code not in _PERMANENT_ERRORS)
