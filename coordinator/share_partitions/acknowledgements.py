"""What a member says became of records (KIP-932, KIP-1222), and the checks that need no state."""

import enum
from collections.abc import Sequence

import msgspec

from coordinator.errors import RequestRefused
from protocol_codecs.error_code import ErrorCode


class AcknowledgeType(enum.IntEnum):
    """What became of one record. GAP: there is no record at this offset. RENEW: from version 2 of the requests on."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(msgspec.Struct, frozen=True):
    """What became of the records from the first to the last offset: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


def check_acknowledgements(
    batches: Sequence[AcknowledgementBatch], *, can_renew: bool, is_renew_ack: bool
) -> None:
    """Refuse acknowledgements that make no sense whatever is acquired.

    ``can_renew`` is whether the request's version knows RENEW (2 does), ``is_renew_ack`` the request's field, without
    which RENEW is refused. The batches have to be in order; one may begin at the last offset of the one before, as
    Kafka allows it. Raises RequestRefused with INVALID_REQUEST, which is the error of the partition alone.
    """
    greatest = AcknowledgeType.RENEW if can_renew else AcknowledgeType.REJECT
    before = -1
    for batch in batches:
        if not before <= batch.first_offset <= batch.last_offset:
            raise RequestRefused(ErrorCode.INVALID_REQUEST)
        if len(batch.types) not in {1, batch.last_offset - batch.first_offset + 1}:
            raise RequestRefused(ErrorCode.INVALID_REQUEST)
        if not all(0 <= kind <= greatest for kind in batch.types):
            raise RequestRefused(ErrorCode.INVALID_REQUEST)
        if AcknowledgeType.RENEW in batch.types and not is_renew_ack:
            raise RequestRefused(ErrorCode.INVALID_REQUEST)
        before = batch.last_offset
