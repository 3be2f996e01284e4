"""First contact at startup (``upstream.startup_timeout_s``): connects to a bootstrap broker, checks that it speaks
Kafka, and learns the nodes.
"""

import random

import structlog
import trio

from protocol_codecs import ApiKey, CodecError
from protocol_codecs.messages.api_versions import NODE_FROM, ApiVersionsRequest
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from proxy.config.schema import Address
from proxy.transport.broker_calls import BrokerCalls, ConnectionClosedError, NoAnswerError
from proxy.transport.dialer import Dialer, UnreachableError
from proxy.transport.node_table import NodeTable
from proxy.wire.api_versions import LEARNING_VERSION, ApiVersionsNegotiator, NegotiatedVersions

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.transport.bootstrap")

_CLIENT_ID = "epochgate"
_MIN_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 5.0
_TIMEOUT_S = 10.0
_METADATA_VERSION = 2
"""The lowest version with the cluster's id. An empty list of topics means none, so the response is small."""


async def reach_brokers(dialer: Dialer, nodes: NodeTable, timeout_s: float) -> Address:
    """Wait until a bootstrap broker answers, and return its address; learn the nodes unless it wants authentication.

    :raises UnreachableError: none answered within ``timeout_s`` seconds; the message has the last error.
    """
    last: Exception = UnreachableError("nothing was tried")
    backoff_s = _MIN_BACKOFF_S
    with trio.move_on_after(timeout_s):
        while True:
            try:
                return await contact(dialer, nodes)
            except (UnreachableError, NoAnswerError, OSError, CodecError) as error:
                last = error
                _log.warning("no broker reached yet", reason=str(error))
            await trio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            backoff_s = min(backoff_s * 2, _MAX_BACKOFF_S)
    raise UnreachableError(f"no broker could be reached within {timeout_s:g} s: {last}")


async def contact(dialer: Dialer, nodes: NodeTable, timeout_s: float = _TIMEOUT_S) -> Address:
    """Have one bootstrap broker answer, within so many seconds after the connection; as :func:`reach_brokers`.

    :raises UnreachableError: none accepted the connection, or the one that did does not answer.
    :raises NoAnswerError: it closed the connection, or its answer makes no sense.
    :raises OSError: the connection broke.
    :raises CodecError: its answer can't be decoded.
    """
    dialed = await dialer.dial(None)
    async with dialed.stream as stream:
        with trio.move_on_after(timeout_s):
            calls = BrokerCalls(stream, _CLIENT_ID)
            frame = await calls.exchange(ApiKey.API_VERSIONS, LEARNING_VERSION, ApiVersionsRequest())
            negotiated: NegotiatedVersions = ApiVersionsNegotiator(allow_unknown_apis=False).negotiate(
                LEARNING_VERSION, frame
            )
            if not negotiated.broker:
                raise UnreachableError(f"{dialed.address} refuses to tell its API versions")
            nodes.checks_identity = negotiated.broker.get(ApiKey.API_VERSIONS, (0, 0))[1] >= NODE_FROM
            await _learn_nodes(calls, nodes)
            return dialed.address
    raise UnreachableError(f"{dialed.address} accepted the connection but does not answer")


async def _learn_nodes(calls: BrokerCalls, nodes: NodeTable) -> None:
    """Ask for the cluster's nodes. A broker that requires authentication closes the connection instead."""
    request = MetadataRequest(topics=())
    try:
        response = await calls.call(ApiKey.METADATA, _METADATA_VERSION, request, MetadataResponse)
    except ConnectionClosedError as error:
        _log.info("nodes will be learned from the first client's metadata", reason=str(error))
        return
    nodes.cluster_id = response.cluster_id
    for broker in response.brokers:
        nodes.learn(broker.node_id, Address(broker.host, broker.port))
        nodes.racks[broker.node_id] = broker.rack
