"""The first contact with the cluster: is anybody there, does it speak Kafka, and who are its nodes?"""

import random
from contextlib import suppress

import structlog
import trio

from protocol_codecs import ApiKey, CodecError, decode
from protocol_codecs.messages.api_versions import ApiVersionsRequest
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from proxy.cluster.dialer import Dialer, UnreachableError
from proxy.cluster.node_table import NodeTable
from proxy.config.schema import Address
from proxy.wire.api_versions import LEARNING_VERSION, ApiVersionsNegotiator, NegotiatedVersions
from proxy.wire.frame_splitter import FrameError, FrameSplitter
from proxy.wire.framing import request_frame, response_body_offset

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.cluster.bootstrap")

_CLIENT_ID = "epochgate"
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_ANSWER_S = 10.0
_LARGEST_ANSWER = 16 * 1024 * 1024
_METADATA_VERSION = 1
"""The lowest in which an empty list of topics means none, so the answer is small; every broker has it."""


async def reach_brokers(dialer: Dialer, nodes: NodeTable, timeout_s: float) -> Address:
    """Wait until a bootstrap broker answers; learn the nodes if it tells them without authentication.

    :raises UnreachableError: none did in time, with what went wrong last.
    """
    last: Exception = UnreachableError("nothing was tried")
    pause_s = _FIRST_PAUSE_S
    with trio.move_on_after(timeout_s):
        while True:
            try:
                return await _ask(dialer, nodes)
            except (UnreachableError, OSError, trio.BrokenResourceError, CodecError, FrameError) as error:
                last = error
                _log.warning("no broker reached yet", reason=str(error))
            await trio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    raise UnreachableError(f"no broker could be reached within {timeout_s:g} s: {last}")


async def _ask(dialer: Dialer, nodes: NodeTable) -> Address:
    dialed = await dialer.dial(None)
    async with dialed.stream as stream:
        with trio.move_on_after(_ANSWER_S):
            frame = await _answer(
                stream,
                request_frame(ApiKey.API_VERSIONS, LEARNING_VERSION, 1, _CLIENT_ID, ApiVersionsRequest()),
            )
            negotiated: NegotiatedVersions = ApiVersionsNegotiator(allow_unknown_apis=False).negotiate(
                LEARNING_VERSION, frame
            )
            if not negotiated.broker:
                raise UnreachableError(f"{dialed.address} refuses to name its versions")
            await _learn_nodes(stream, nodes)
            return dialed.address
    raise UnreachableError(f"{dialed.address} took the connection and does not answer")


async def _learn_nodes(stream: trio.abc.Stream, nodes: NodeTable) -> None:
    """Ask who is in the cluster; a broker that wants authentication first closes the connection instead."""
    request = request_frame(ApiKey.METADATA, _METADATA_VERSION, 2, _CLIENT_ID, MetadataRequest(topics=()))
    try:
        frame = await _answer(stream, request)
    except (trio.BrokenResourceError, UnreachableError) as error:
        _log.info("nodes will be learned from the first client's metadata", reason=str(error))
        return
    offset = response_body_offset(ApiKey.METADATA, _METADATA_VERSION, frame)
    response = decode(MetadataResponse, _METADATA_VERSION, frame, offset)
    for broker in response.brokers:
        nodes.learn(broker.node_id, Address(broker.host, broker.port))


async def _answer(stream: trio.abc.Stream, request: bytes) -> bytes:
    with suppress(
        trio.BrokenResourceError
    ):  # what it said before it closed the connection is still to be read
        await stream.send_all(request)
    splitter = FrameSplitter(_LARGEST_ANSWER)
    frame = b""
    while data := await stream.receive_some():
        splitter.feed(bytes(data))
        while (piece := splitter.next_piece()) is not None:
            frame += piece.data
            if piece.last:
                return frame
    raise UnreachableError("the broker closed the connection instead of answering")
