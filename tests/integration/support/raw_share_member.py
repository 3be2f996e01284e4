"""A member of a share group made by hand, a call at a time: to ask a broker what it really does (KIP-932)."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v1 import request as share_acknowledge
from kio.schema.share_fetch.v1 import request as share_fetch
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.static.primitive import i32Timedelta

from support.broker import Kafka
from support.raw import RawConnection
from support.raw_new_member import topic_id

OPENS, CLOSES = 0, -1
"""Share session epochs."""

_ACCEPT = 1


class RawShareMember:
    """One member of ``group``, on a connection that others may use too. The cluster has one broker."""

    def __init__(self, kafka: Kafka, connection: RawConnection, group: str, topic: str) -> None:
        self.member_id = str(uuid.uuid4())
        self._connection = connection
        self._group = group
        self._topic = topic
        self._topic_id = topic_id(kafka, topic)

    def join(self) -> Any:
        """Join the group; its partitions come with a later heartbeat."""
        return self._connection.call(
            ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=0,
                subscribed_topic_names=(self._topic,),
            )
        )

    def fetch(self, epoch: int, partitions: Iterable[int]) -> dict[int, list[tuple[int, int, int]]]:
        """Fetch, waiting for up to half a second; return first offset, last offset and delivery count by partition."""
        answer = self._connection.call(
            share_fetch.ShareFetchRequest(
                group_id=self._group,
                member_id=self.member_id,
                share_session_epoch=epoch,
                max_wait=i32Timedelta.parse(timedelta(milliseconds=500)),
                min_bytes=1,
                max_records=500,
                batch_size=500,
                topics=(
                    share_fetch.FetchTopic(
                        topic_id=self._topic_id,
                        partitions=tuple(
                            share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=())
                            for index in partitions
                        ),
                    ),
                ),
                forgotten_topics_data=(),
            )
        )
        assert answer.error_code == ErrorCode.none, answer
        return {
            partition.partition_index: [
                (one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records
            ]
            for topic in answer.responses
            for partition in topic.partitions
            if partition.acquired_records
        }

    def accept(self, epoch: int, offsets: Mapping[int, tuple[int, int]]) -> list[ErrorCode]:
        """Acknowledge offsets, first and last by partition; return the errors that are none."""
        answer = self._connection.call(
            share_acknowledge.ShareAcknowledgeRequest(
                group_id=self._group,
                member_id=self.member_id,
                share_session_epoch=epoch,
                topics=(
                    share_acknowledge.AcknowledgeTopic(
                        topic_id=self._topic_id,
                        partitions=tuple(
                            share_acknowledge.AcknowledgePartition(
                                partition_index=index,
                                acknowledgement_batches=(
                                    share_acknowledge.AcknowledgementBatch(
                                        first_offset=first, last_offset=last, acknowledge_types=(_ACCEPT,)
                                    ),
                                ),
                            )
                            for index, (first, last) in offsets.items()
                        ),
                    ),
                ),
            )
        )
        codes = [
            answer.error_code,
            *(one.error_code for topic in answer.responses for one in topic.partitions),
        ]
        return [ErrorCode(code) for code in codes if code != ErrorCode.none]
