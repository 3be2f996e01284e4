"""Rewrites broker addresses in the responses that contain them: Metadata, FindCoordinator and DescribeCluster.

Clients connect to whatever address such a response names, so a proxy has to rewrite each of them. Metadata responses
are frequent and long: only the broker list is decoded and encoded again, the bytes after it are copied.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from protocol_codecs.codec import Buffer, decode, decode_prefix, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.fields import array, int32, string
from protocol_codecs.message import Message
from protocol_codecs.messages.describe_cluster import DescribeClusterResponse
from protocol_codecs.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker

AddressOf = Callable[[int, str, int], tuple[str, int] | None]
"""Gives the address to put in place of (node id, host, port), or None to leave that node out."""

_FIRST_BATCHED_VERSION = 4
_NO_NODE = -1
_FIRST_METADATA_WITH_ERROR = 13
_LONGEST_ERROR = 1024
"""Bytes; the id of the cluster is the longest part of it."""


class Node(msgspec.Struct, frozen=True):
    """A node as the response named it, before rewriting; ``rack`` is None where the response has no racks."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Rewritten(msgspec.Struct, frozen=True):
    """A response body with rewritten addresses, and the nodes that it named before.

    ``cluster_id`` is that of a Metadata response, None before v2.
    """

    body: bytes
    nodes: tuple[Node, ...]
    cluster_id: str | None = None


class _MetadataResponseBeginning(Message, beginning_of=MetadataResponse):
    """The fields of a Metadata response up to the cluster id behind its broker list."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)


def rewrite_metadata_brokers(
    body: Buffer, version: int, address_of: AddressOf, if_empty: Callable[[], Iterable[Node]] = tuple
) -> Rewritten:
    """Rewrite the broker list of a Metadata response; one without any broker gets the nodes of ``if_empty``.

    One with an error of its own (KIP-1102) stays without them: it says nothing of the cluster, and clients ignore it or
    begin again. Leaders and replicas may name nodes that were left out; clients treat those as not available. Raises
    MalformedMessage if the body is malformed up to the cluster id behind that list; the bytes after it are not checked,
    but for a short response that may be an error.
    """
    beginning, end = decode_prefix(_MetadataResponseBeginning, version, body)
    brokers = []
    for broker in beginning.brokers:
        address = address_of(broker.node_id, broker.host, broker.port)
        if address is not None:
            host, port = address
            brokers.append(
                MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
            )
    if not beginning.brokers and not _is_error(body, version):
        brokers = [
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in if_empty()
        ]
    rewritten = _MetadataResponseBeginning(
        throttle_time_ms=beginning.throttle_time_ms,
        brokers=tuple(brokers),
        cluster_id=beginning.cluster_id,
    )
    return Rewritten(
        b"".join((encode(rewritten, version), memoryview(body)[end:])),
        tuple(Node(b.node_id, b.host, b.port, b.rack) for b in beginning.brokers),
        beginning.cluster_id,
    )


def _is_error(body: Buffer, version: int) -> bool:
    """Whether a Metadata response is nothing but an error. Such a one is short: long ones are not read to their end."""
    if version < _FIRST_METADATA_WITH_ERROR or len(body) > _LONGEST_ERROR:
        return False
    return decode(MetadataResponse, version, body).error_code != ErrorCode.NONE


def rewrite_find_coordinator(body: Buffer, version: int, address_of: AddressOf) -> Rewritten:
    """Rewrite a FindCoordinator response, for every key type.

    A coordinator that is left out becomes COORDINATOR_NOT_AVAILABLE, which clients retry. Raises MalformedMessage.
    """
    response = decode(FindCoordinatorResponse, version, body)
    if version < _FIRST_BATCHED_VERSION:
        found: tuple[FindCoordinatorResponse | Coordinator, ...] = (response,)
        rewritten = _with_coordinator_address(response, address_of)
    else:
        found = response.coordinators
        coordinators = tuple(_with_coordinator_address(each, address_of) for each in response.coordinators)
        rewritten = replace(response, coordinators=coordinators)
    return Rewritten(
        encode(rewritten, version),
        tuple(Node(each.node_id, each.host, each.port) for each in found if each.node_id >= 0),
    )


def rewrite_describe_cluster(body: Buffer, version: int, address_of: AddressOf) -> Rewritten:
    """Rewrite a DescribeCluster response that lists brokers or controllers. Raises MalformedMessage."""
    response = decode(DescribeClusterResponse, version, body)
    brokers = []
    for broker in response.brokers:
        address = address_of(broker.broker_id, broker.host, broker.port)
        if address is not None:
            host, port = address
            brokers.append(replace(broker, host=host, port=port))
    return Rewritten(
        encode(replace(response, brokers=tuple(brokers)), version),
        tuple(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers),
    )


Located = TypeVar("Located", FindCoordinatorResponse, Coordinator)


def _with_coordinator_address(located: Located, address_of: AddressOf) -> Located:
    if located.node_id < 0:
        return located
    address = address_of(located.node_id, located.host, located.port)
    if address is None:
        return replace(
            located,
            node_id=_NO_NODE,
            host="",
            port=_NO_NODE,
            error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
            error_message=None,
        )
    host, port = address
    return replace(located, host=host, port=port)
