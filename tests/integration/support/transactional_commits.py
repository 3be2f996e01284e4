"""Offsets that a producer commits for a member in a transaction, by hand (TxnOffsetCommit v3)."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from kio.schema.add_offsets_to_txn.v1.request import AddOffsetsToTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v1.request import InitProducerIdRequest
from kio.schema.txn_offset_commit.v3.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.static.primitive import i8, i32, i64

from support.waiting import eventually

_TRANSACTION = i8(1)
"""The key type of FindCoordinator."""


class TransactionalCommits:
    """A transaction to which a group belongs, on the connection behind `call`."""

    def __init__(self, call: Callable[[Any], Any], group: str, topic: str) -> None:
        self._call, self._topic = call, topic
        transactional_id = f"txn-{group}"
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout=dt.timedelta(seconds=30)
        )

        def ask() -> Any:
            # Has the broker make its log of transactions.
            call(FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=(transactional_id,)))
            return call(init)

        producer = eventually(
            ask,
            lambda answer: answer.error_code == ErrorCode.none,
            what="there is a coordinator of transactions",
        )
        self._who = {
            "transactional_id": transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "group_id": group,
        }
        assert call(AddOffsetsToTxnRequest(**self._who)).error_code == ErrorCode.none

    def commit(self, member_id: str, generation: int, partition: int = 0) -> int:
        """The error code of committing an offset of a partition for this member at this generation or epoch."""
        at = TxnOffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(1), committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            **self._who,
            generation_id=i32(generation),
            member_id=member_id,
            topics=(TxnOffsetCommitRequestTopic(name=self._topic, partitions=(at,)),),
        )
        return int(self._call(request).topics[0].partitions[0].error_code)
