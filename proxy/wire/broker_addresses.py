"""Rewrites the broker addresses in responses: which responses have any, and where in them.

The list is closed: Metadata, FindCoordinator and DescribeCluster name brokers in every version; Produce from v10 and
Fetch from v16 may do so too (``proxy.wire.produce_fetch_endpoints``). Which address clients are told instead is decided
in :mod:`proxy.cluster.advertised_cluster`. A node that has no port here is left out.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey
from protocol_codecs.address_rewrite import (
    Rewritten,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata_brokers,
)
from proxy.config.schema import Address
from proxy.wire.framing import correlation_id_of, response_body_offset, response_of_body

MapAddress = Callable[[int, str, int], Address | None]
"""Node id and the broker's own host and port -> what clients are told, None to leave the node out."""

_REWRITERS: dict[int, Callable[[bytes, int, MapAddress], Rewritten]] = {
    ApiKey.METADATA: rewrite_metadata_brokers,
    ApiKey.FIND_COORDINATOR: rewrite_find_coordinator,
    ApiKey.DESCRIBE_CLUSTER: rewrite_describe_cluster,
}

CARRYING_ADDRESSES = frozenset(_REWRITERS)
"""The APIs whose responses are rewritten whole, in all versions."""


def rewrite_addresses(api_key: int, version: int, frame: bytes, map_address: MapAddress) -> bytes:
    """The response's frame with the addresses that clients are told.

    :raises MalformedMessage: it can't be read as far as its addresses.
    """
    body = frame[response_body_offset(api_key, version, frame) :]
    changed = _REWRITERS[api_key](body, version, map_address).body
    return response_of_body(api_key, version, correlation_id_of(frame), changed)
