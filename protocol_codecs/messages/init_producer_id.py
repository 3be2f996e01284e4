"""InitProducerId (22): a producer id and epoch for an idempotent or transactional producer.

- v1: the broker answers before it throttles.
- v2: flexible.
- v3: a producer may go on with its id after an error (KIP-360).
- v4: may answer PRODUCER_FENCED; v5: may answer TRANSACTION_ABORTABLE (KIP-890).
- v6: two-phase commit (KIP-939).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import boolean, int16, int32, int64, string
from protocol_codecs.message import Message


class InitProducerIdRequest(Message, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """Asks for a producer id; without a transactional id it is a new one."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """The producer id and its epoch."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
