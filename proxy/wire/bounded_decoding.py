"""Group calls and their answers are decoded with a bound, because clients choose how many elements they have.

Everything here is done by one thread for all connections. A thousand elements take it about a fifth of a millisecond to
decode, and up to two until the translation or the observer is through with them. What takes longer than others counts
for more than one element.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from protocol_codecs import ApiKey, CodecError, Message, TooManyElements, decode_bounded
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
)
from protocol_codecs.registry import APIS
from proxy.wire.framing import response_body_offset
from proxy.wire.request_header import RequestHeader, body_offset

T = TypeVar("T")

_JOIN_GROUP = int(ApiKey.JOIN_GROUP)
_SYNC_GROUP = int(ApiKey.SYNC_GROUP)
_CONSUMER = "consumer"
_EACH_SUBSCRIPTION = 100
"""For how many elements an embedded subscription counts, besides those that are counted in it."""
_EACH_TOPIC = 3
"""For how many elements a topic counts whose partitions are embedded, besides these."""
_REPEATED = 8
"""For one element counts so much of a list of owned partitions that stood in the subscription before: clients put the
same one into the subscription of each assignor."""
_SHORT = 400
"""Nothing is counted in an embedded message of so many bytes, as nearly all are: a hundred short topics at most."""


def read_group_call(header: RequestHeader, frame: bytes, max_elements: int) -> Message:
    """The group call in a request's frame.

    ``max_elements`` bounds the elements of all its arrays together, and those of all subscriptions embedded in it. As
    brokers do, what follows the message is ignored: librdkafka has sent surplus bytes behind some requests.

    :raises TooManyElements: it has more.
    :raises MalformedMessage: it is none.
    :raises HeaderError: its header can't be read.
    """
    offset = body_offset(frame, header)
    message: Any
    message, _ = decode_bounded(APIS[header.api_key].request, header.version, frame, offset, max_elements)
    if header.api_key == _JOIN_GROUP and message.protocol_type == _CONSUMER:
        _check_subscriptions([protocol.metadata for protocol in message.protocols], max_elements)
    return cast("Message", message)


def read_group_response(api_key: int, version: int, frame: bytes, max_elements: int) -> Message:
    """A broker's answer to a group call, with what another client has chosen in it: the same bounds hold.

    :raises TooManyElements: it has more.
    :raises MalformedMessage: it is none.
    """
    offset = response_body_offset(api_key, version, frame)
    message: Any
    message, _ = decode_bounded(APIS[api_key].response, version, frame, offset, max_elements)
    if api_key == _SYNC_GROUP:
        assignment = _read(decode_assignment, message.assignment, max_elements)
        if assignment is not None and _weight(assignment.assigned_partitions) > max_elements:
            raise TooManyElements("ConsumerProtocolAssignment", 0)
    return cast("Message", message)


def _check_subscriptions(embedded: list[bytes], max_elements: int) -> None:
    """See that subscriptions have no more elements than this together.

    :raises TooManyElements: they have.
    """
    left = max_elements - _EACH_SUBSCRIPTION * len(embedded)
    before: tuple[ConsumerProtocolTopicPartition, ...] | None = None
    for metadata in embedded:
        subscription = _read(decode_subscription, metadata, max_elements)
        if subscription is not None:
            owned = subscription.owned_partitions
            weight = _weight(owned)
            left -= len(subscription.topics) + (weight // _REPEATED if owned == before else weight)
            before = owned
        if left < 0:
            raise TooManyElements("ConsumerProtocolSubscription", 0)


def _weight(topics: tuple[ConsumerProtocolTopicPartition, ...]) -> int:
    return sum(_EACH_TOPIC + len(topic.partitions) for topic in topics)


def _read(decode: Callable[[bytes, int], tuple[int, T]], embedded: bytes, max_elements: int) -> T | None:
    """An embedded message that is long enough to count; None for others, and for what is none, which others will say.

    :raises TooManyElements: it has more than ``max_elements``.
    """
    if len(embedded) <= _SHORT:
        return None
    try:
        return decode(embedded, max_elements)[1]
    except TooManyElements:
        raise
    except CodecError:
        return None
