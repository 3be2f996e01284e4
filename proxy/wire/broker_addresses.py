"""Rewrites the broker addresses in responses: which responses have any, and where in them.

The list is closed: Metadata, FindCoordinator and DescribeCluster name brokers in every version; Produce from v10 and
Fetch from v16 may do so too (``proxy.wire.endpoint_rewriter``). Which address clients are told instead is decided
in :mod:`proxy.server.advertised_cluster`. A node that has no port here is left out.

A broker that is fenced, as at the end of an orderly stop or early in its start, may know no broker at all, and answers
Metadata with topics but without any broker. librdkafka gives up all its brokers then, some of its consumers for good
(https://github.com/confluentinc/librdkafka/issues/5301). So the clients are told the nodes that were named before, with
their racks: the leader of a classic group rejoins if racks change, as Java with ``client.rack`` does.
"""

from collections.abc import Callable, Iterable

from protocol_codecs import ApiKey
from protocol_codecs.address_rewrite import (
    Node,
    Rewritten,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata_brokers,
)
from proxy.wire.framing import correlation_id_of, response_body_offset, response_of_body

MapAddress = Callable[[int, str, int], tuple[str, int] | None]
"""Node id and the broker's own host and port -> what clients are told, None to leave the node out."""

KnownNodes = Callable[[], Iterable[Node]]
"""The nodes that were named before, as clients are told them."""

LearnCluster = Callable[[Iterable[Node], str | None], None]
"""Takes the nodes that a Metadata response names, with their racks, and the cluster's id, which it has from v2 on."""

_FIRST_WITH_RACKS = 1

_REWRITERS: dict[int, Callable[[bytes, int, MapAddress], Rewritten]] = {
    ApiKey.FIND_COORDINATOR: rewrite_find_coordinator,
    ApiKey.DESCRIBE_CLUSTER: rewrite_describe_cluster,
}

CARRYING_ADDRESSES = frozenset({ApiKey.METADATA, *_REWRITERS})
"""The APIs whose responses are rewritten whole, in all versions."""


def rewrite_addresses(
    api_key: int,
    version: int,
    frame: bytes,
    map_address: MapAddress,
    known_nodes: KnownNodes,
    learn_cluster: LearnCluster,
) -> bytes:
    """The response's frame with the addresses that clients are told.

    :raises MalformedMessage: it can't be read as far as its addresses.
    """
    body = frame[response_body_offset(api_key, version, frame) :]
    if api_key == ApiKey.METADATA:
        changed = rewrite_metadata_brokers(body, version, map_address, known_nodes)
        if version >= _FIRST_WITH_RACKS:
            learn_cluster(changed.nodes, changed.cluster_id)
    else:
        changed = _REWRITERS[api_key](body, version, map_address)
    return response_of_body(api_key, version, correlation_id_of(frame), changed.body)
