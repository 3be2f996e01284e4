"""A transactional producer that commits what its application has consumed, as a Java "exactly once" application does.

``sendOffsetsToTransaction(offsets, consumer.groupMetadata())`` is a TxnOffsetCommit with the member's id, instance id
and generation, on a connection of the producer's own: to whatever replica that leads, and whenever the producer comes
to send it. Its application may have rejoined by then, through another replica.

Its transaction stays open: whether the offsets count in the end changes nothing for the group.
"""

from typing import Any

from protocol_codecs import ApiKey
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.clients.caller import Caller, Surroundings
from tests.simulation.clients.classic import ClassicClient
from tests.simulation.clients.speech import by_topic
from tests.simulation.wire import GROUP

_VERSION = 4
_REQUEST_TIMEOUT_MS = 30_000


class Producer(Caller):
    """The producer of a consumer's application. It is no member of the group, so nothing ends it."""

    member_id = ""
    generation = -1

    def __init__(self, world: Surroundings, consumer: ClassicClient) -> None:
        super().__init__(f"{consumer.name}p", world)
        self.consumer = consumer
        self.topics = consumer.topics

    def commit(self, *, after_ms: int) -> None:
        """Commit what the consumer works on now, under its generation of now, but send it only after this time."""
        request = self._request()
        self.watch.producers.prepared(self, request)
        self.later(after_ms, self._send, request)

    def _send(self, request: TxnOffsetCommitRequest) -> None:
        def ignore(_: Any = None) -> None:
            """Leave it at that: its application would abort the transaction."""

        self.ask(
            "producer",
            ApiKey.TXN_OFFSET_COMMIT,
            _VERSION,
            request,
            ignore,
            ignore,
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _request(self) -> TxnOffsetCommitRequest:
        consumer = self.consumer
        offsets = consumer.next_offsets()
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self.start_number,
            generation_id_or_member_epoch=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offsets[topic, index]
                        )
                        for index in indexes
                    ),
                )
                for topic, indexes in by_topic(offsets).items()
            ),
        )
