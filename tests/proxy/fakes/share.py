"""Requests and responses of a share consumer."""

from typing import Any

from protocol_codecs import ApiKey
from protocol_codecs.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseTopic,
)
from protocol_codecs.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestForgottenTopic,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)
from tests.proxy.fakes import messages, wire

VERSIONS = {
    **messages.BROKER_VERSIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
}
"""The ranges of a broker with share groups."""

ACCEPT, RENEW = 1, 4
LOCK_S = 30
"""For how long the broker locks records, in seconds."""

_TOPIC_ID = bytes(range(16))


def fetch(
    correlation_id: int,
    epoch: int,
    acknowledged: range | None = None,
    *,
    member: str = "m",
    forgotten: int = 0,
) -> bytes:
    """A ShareFetch that takes so many ``forgotten`` partitions out of the session."""
    batches = _batches(ShareFetchRequestAcknowledgementBatch, acknowledged, (ACCEPT,))
    partition = ShareFetchRequestPartition(acknowledgement_batches=batches)
    request = ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        topics=(ShareFetchRequestTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(
            ShareFetchRequestForgottenTopic(topic_id=_TOPIC_ID, partitions=tuple(range(forgotten))),
        ),
    )
    return wire.request(ApiKey.SHARE_FETCH, 2, correlation_id, request)


def fetched(
    correlation_id: int,
    acquired: range | None = None,
    *,
    error: int = 0,
    acknowledge_error: int = 0,
    size: int = 0,
    lock_s: float = LOCK_S,
) -> bytes:
    """The answer to a ShareFetch, with these offsets locked now and records of ``size`` bytes."""
    partition = ShareFetchResponsePartition(
        acknowledge_error_code=acknowledge_error,
        records=bytes(size),
        acquired_records=()
        if acquired is None
        else (
            ShareFetchResponseAcquiredRecords(
                first_offset=acquired[0], last_offset=acquired[-1], delivery_count=1
            ),
        ),
    )
    response = ShareFetchResponse(
        error_code=error,
        acquisition_lock_timeout_ms=int(lock_s * 1000),
        responses=(ShareFetchResponseTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
    )
    return wire.response(ApiKey.SHARE_FETCH, 2, correlation_id, response)


def acknowledge(
    correlation_id: int,
    epoch: int,
    offsets: range | None = None,
    types: tuple[int, ...] = (ACCEPT,),
    *,
    version: int = 2,
) -> bytes:
    """A ShareAcknowledge; for a large one, give a type for each of many offsets."""
    partition = ShareAcknowledgeRequestPartition(
        acknowledgement_batches=_batches(ShareAcknowledgeRequestBatch, offsets, types)
    )
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        is_renew_ack=RENEW in types,
        topics=(ShareAcknowledgeRequestTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
    )
    return wire.request(ApiKey.SHARE_ACKNOWLEDGE, version, correlation_id, request)


def acknowledged(correlation_id: int, *, partition_error: int = 0, error: int = 0, version: int = 2) -> bytes:
    partition = ShareAcknowledgeResponsePartition(error_code=partition_error)
    response = ShareAcknowledgeResponse(
        error_code=error,
        acquisition_lock_timeout_ms=LOCK_S * 1000 if version >= 2 else 0,
        responses=(ShareAcknowledgeResponseTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
    )
    return wire.response(ApiKey.SHARE_ACKNOWLEDGE, version, correlation_id, response)


def _batches(batch: Any, offsets: range | None, types: tuple[int, ...]) -> tuple[Any, ...]:
    if offsets is None:
        return ()
    return (batch(first_offset=offsets[0], last_offset=offsets[-1], acknowledge_types=types),)
