"""Rewrite the responses that carry broker addresses, so that no client walks past the proxy.

The list is closed: Metadata, FindCoordinator and DescribeCluster name brokers in every version; Produce from
v10 and Fetch from v16 may do so too (``proxy.node_endpoints``). A node that has no port here is left out.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode, Message, decode
from protocol_codecs.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol_codecs.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from proxy.config import Address
from proxy.envelope import correlation_id_of, response_body_offset, response_frame

Advertise = Callable[[int, str, int], Address | None]
"""Node id and the broker's own host and port -> what clients are told, None to leave the node out."""

Rewriter = Callable[[bytes, int, Advertise], bytes]
"""The frame of a response and its version -> the frame that the client gets."""

_Answer = TypeVar("_Answer", Coordinator, FindCoordinatorResponse)

_NO_NODE = -1
_NO_PORT = -1
_HIDDEN = "The coordinator has no port on this proxy"
_BROKERS = 1
_FIRST_WITH_KEYS = 4


def metadata(frame: bytes, version: int, advertise: Advertise) -> bytes:
    """Rewrite the broker list. A hidden leader is, for clients, one that is not available."""
    offset = response_body_offset(ApiKey.METADATA, version, frame)
    response = decode(MetadataResponse, version, frame, offset)
    brokers: list[MetadataResponseBroker] = []
    for broker in response.brokers:
        address = advertise(broker.node_id, broker.host, broker.port)
        if address is not None:
            brokers.append(replace(broker, host=address.host, port=address.port))
    return _frame(ApiKey.METADATA, version, frame, replace(response, brokers=tuple(brokers)))


def find_coordinator(frame: bytes, version: int, advertise: Advertise) -> bytes:
    """Rewrite the coordinators of all key types. A hidden one is answered COORDINATOR_NOT_AVAILABLE."""
    offset = response_body_offset(ApiKey.FIND_COORDINATOR, version, frame)
    response = decode(FindCoordinatorResponse, version, frame, offset)
    if version >= _FIRST_WITH_KEYS:
        coordinators = tuple(_coordinator(coordinator, advertise) for coordinator in response.coordinators)
        response = replace(response, coordinators=coordinators)
    else:
        response = _coordinator(response, advertise)
    return _frame(ApiKey.FIND_COORDINATOR, version, frame, response)


def _coordinator(answer: _Answer, advertise: Advertise) -> _Answer:
    if answer.node_id < 0:
        return answer
    address = advertise(answer.node_id, answer.host, answer.port)
    if address is not None:
        return replace(answer, host=address.host, port=address.port)
    return replace(
        answer,
        error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        error_message=_HIDDEN,
        node_id=_NO_NODE,
        host="",
        port=_NO_PORT,
    )


def describe_cluster(frame: bytes, version: int, advertise: Advertise) -> bytes:
    """Rewrite the brokers. Controllers (endpoint type 2) are left out: there is no port for them."""
    offset = response_body_offset(ApiKey.DESCRIBE_CLUSTER, version, frame)
    response = decode(DescribeClusterResponse, version, frame, offset)
    brokers: list[DescribeClusterBroker] = []
    for broker in response.brokers if response.endpoint_type == _BROKERS else ():
        address = advertise(broker.broker_id, broker.host, broker.port)
        if address is not None:
            brokers.append(replace(broker, host=address.host, port=address.port))
    return _frame(ApiKey.DESCRIBE_CLUSTER, version, frame, replace(response, brokers=tuple(brokers)))


def _frame(api_key: int, version: int, original: bytes, message: Message) -> bytes:
    return response_frame(api_key, version, correlation_id_of(original), message)


REWRITERS: dict[int, Rewriter] = {
    ApiKey.METADATA: metadata,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
}
"""How the responses of an API are rewritten, in all its versions."""
