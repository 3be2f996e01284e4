"""ShareFetch (78), v1 and v2: acquires records for a member of a share group, and waits for some if there are none.

It opens and continues the member's share session, which belongs to the connection, and may bring acknowledgements
(KIP-932). All records are read: there are no transactions, so ``read_committed`` makes no difference.
"""

from collections.abc import Sequence

import msgspec
import trio

from coordinator.broker.apis.share_acknowledge import (
    Outcomes,
    acknowledged,
    by_topic,
    check_partition,
    led_elsewhere,
    member_of,
)
from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH, OffsetOutOfRange
from coordinator.broker.share_leader import LedSharePartition
from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    FINAL_EPOCH,
    AcknowledgementBatch,
    AcquiredRecords,
    AcquireMode,
    SessionFetch,
    SessionPartition,
    count_of,
    fetched_batches,
    records_of,
)
from coordinator.share_state import SharePartition
from protocol_codecs.all_messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponseLeader,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)
from protocol_codecs.error_code import ErrorCode

MAX_BYTES = 55 * 1024 * 1024
"""Kafka's ``fetch.max.bytes``."""
Partitions = dict[SessionPartition, ShareFetchResponsePartition]


async def serve(context: RequestScope, request: ShareFetchRequest) -> ShareFetchResponse:
    """Serve the request as soon as ``min_bytes`` can be acquired, or ``max_wait_ms`` have passed."""
    try:
        group_id, member_id = member_of(request.group_id, request.member_id)
        _check(request)
        fetch = context.share_leader.sessions.fetch(
            group_id,
            member_id,
            request.share_session_epoch,
            connection=context.connection_id,
            partitions=[
                SessionPartition(topic.topic_id, partition.partition_index)
                for topic in request.topics
                for partition in topic.partitions
            ],
            forgotten=[
                SessionPartition(topic.topic_id, number)
                for topic in request.forgotten_topics_data
                for number in topic.partitions
            ],
            has_acknowledgements=_has_acknowledgements(request),
        )
    except RequestRefused as refused:
        if refused.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await trio.sleep(max(request.max_wait_ms, 0) / 1000)
        return ShareFetchResponse(error_code=refused.code, error_message=refused.message)
    outcomes = _acknowledged(context, group_id, member_id, request)
    found: Partitions = {}
    if not request.is_renew_ack:  # a member that renews locks wants its answer before they end
        found = await _fetched(context, group_id, member_id, request, fetch.partitions)
    try:
        found = _named(fetch, found)
    except RequestRefused as refused:
        return ShareFetchResponse(error_code=refused.code, error_message=refused.message)
    if request.share_session_epoch == FINAL_EPOCH:
        context.share_leader.close_session(group_id, member_id)
    return _response(context, group_id, _with_outcomes(found, outcomes))


def _check(request: ShareFetchRequest) -> None:
    """Raise RequestRefused unless the request makes sense by itself."""
    if request.share_acquire_mode not in set(AcquireMode):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"acquire mode {request.share_acquire_mode}")
    sizes = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(sizes):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a request that renews locks fetches nothing")


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(
        partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
    )


def _acknowledged(
    context: RequestScope, group_id: str, member_id: str, request: ShareFetchRequest
) -> Outcomes:
    """Apply the acknowledgements that came with the request; without any, nothing has an outcome."""
    if not _has_acknowledgements(request):
        return {}
    batches = {
        SessionPartition(topic.topic_id, partition.partition_index): tuple(
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    return acknowledged(context, group_id, member_id, batches, is_renew_ack=request.is_renew_ack)


async def _fetched(
    context: RequestScope,
    group_id: str,
    member_id: str,
    request: ShareFetchRequest,
    partitions: Sequence[SessionPartition],
) -> Partitions:
    """Acquire records, and return what there is to say of the partitions of the session."""
    found: Partitions = {}
    led: dict[SessionPartition, LedSharePartition] = {}
    for partition in partitions:
        try:
            check_partition(context, partition)
            key = SharePartition(group_id, partition.topic_id, partition.partition)
            led[partition] = context.share_leader.led(key)
        except RequestRefused as refused:
            found[partition] = _failed(context, partition, refused)
    if led and request.max_records > 0 and request.max_bytes > 0:
        with trio.move_on_after(max(request.max_wait_ms, 0) / 1000):
            while not _is_due(request, tuple(led.values())):
                await context.cluster.wait_for_records()
        found |= _acquired(context, member_id, request, led)
    return found


def _named(fetch: SessionFetch, found: Partitions) -> Partitions:
    """Return the partitions that the answer names. Raises RequestRefused with INVALID_SHARE_SESSION_EPOCH."""
    return {
        partition: answer
        for partition, answer in found.items()
        if fetch.names(
            partition,
            has_records=bool(answer.records),
            has_error=answer.error_code != ErrorCode.NONE,
        )
    }


def _can_be_tried(led: LedSharePartition) -> bool:
    return not led.is_fenced and led.in_flight.can_acquire()


def _max_bytes_each(request: ShareFetchRequest, partitions: int) -> int:
    """Return how much may be read of each partition."""
    return max(min(request.max_bytes, MAX_BYTES) // max(partitions, 1), 1)


def _is_due(request: ShareFetchRequest, led: Sequence[LedSharePartition]) -> bool:
    """Whether there is enough to read where records can be acquired."""
    tried = [one for one in led if _can_be_tried(one)]
    most = _max_bytes_each(request, len(tried))
    available = 0
    for one in tried:
        offset = one.in_flight.next_fetch_offset()
        if not one.log.start_offset <= offset <= one.log.next_offset:
            return True
        available += min(one.log.available(offset), most)
    return bool(tried) and available >= min(request.min_bytes, request.max_bytes)


def _acquired(
    context: RequestScope,
    member_id: str,
    request: ShareFetchRequest,
    led: dict[SessionPartition, LedSharePartition],
) -> Partitions:
    tried = {partition: one for partition, one in led.items() if _can_be_tried(one)}
    most = _max_bytes_each(request, len(tried))
    left = request.max_records
    found: Partitions = {}
    for partition, one in tried.items():
        records, acquired = _acquire(context, member_id, request, one, max_bytes=most, max_records=left)
        left -= count_of(acquired)
        found[partition] = ShareFetchResponsePartition(
            partition_index=partition.partition,
            records=records,
            acquired_records=tuple(
                ShareFetchResponseAcquiredRecords(
                    first_offset=some.first_offset,
                    last_offset=some.last_offset,
                    delivery_count=some.delivery_count,
                )
                for some in acquired
            ),
        )
    return found


def _acquire(
    context: RequestScope,
    member_id: str,
    request: ShareFetchRequest,
    led: LedSharePartition,
    *,
    max_bytes: int,
    max_records: int,
) -> tuple[bytes, Sequence[AcquiredRecords]]:
    """Read from the log of a share partition, and lock what the member may have of it."""
    leader, offset = context.share_leader, led.in_flight.next_fetch_offset()
    try:
        records = led.log.read(offset, max_bytes)
    except OffsetOutOfRange:  # the member asks again
        led.in_flight.move_log_start(led.log.start_offset)
        return b"", ()
    if max_records <= 0 or not records:
        return b"", ()
    acquired = led.in_flight.acquire(
        member_id,
        fetched_batches(records),
        fetch_offset=offset,
        max_records=max_records,
        batch_size=request.batch_size,
        now_ms=leader.now_ms(),
        mode=AcquireMode(request.share_acquire_mode),
    )
    leader.acquired(led)
    return records_of(records, acquired), acquired


def _failed(
    context: RequestScope, partition: SessionPartition, refused: RequestRefused
) -> ShareFetchResponsePartition:
    leader_id = led_elsewhere(context, partition.partition, refused)
    return ShareFetchResponsePartition(
        partition_index=partition.partition,
        error_code=refused.code,
        error_message=refused.message,
        current_leader=ShareFetchResponseLeader()
        if leader_id is None
        else ShareFetchResponseLeader(leader_id=leader_id, leader_epoch=LEADER_EPOCH),
    )


def _with_outcomes(found: Partitions, outcomes: Outcomes) -> Partitions:
    """Return the partitions with what became of acknowledgements; every partition with some is named."""
    combined = dict(found)
    for partition, refused in outcomes.items():
        fetched = found.get(partition, ShareFetchResponsePartition(partition_index=partition.partition))
        if refused is not None:
            fetched = msgspec.structs.replace(
                fetched, acknowledge_error_code=refused.code, acknowledge_error_message=refused.message
            )
        combined[partition] = fetched
    return combined


def _response(context: RequestScope, group_id: str, found: Partitions) -> ShareFetchResponse:
    leaders = {
        context.cluster.leader_of(partition.partition)
        for partition, answer in found.items()
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=context.share_leader.lock_duration_ms(group_id),
        responses=tuple(
            ShareFetchResponseTopic(topic_id=topic_id, partitions=tuple(found[one] for one in partitions))
            for topic_id, partitions in by_topic(found).items()
        ),
        node_endpoints=tuple(
            ShareFetchResponseNodeEndpoint(node_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
            for a in context.cluster.addresses.values()
            if a.node_id in leaders
        ),
    )
