"""Calls a broker on a connection of the proxy's own, one call at a time: first contact, preflight, journal, exporter.

What a broker sends is foreign: all that can be wrong with an answer is one exception, and its size is bounded.
"""

from contextlib import suppress
from itertools import count

import trio
from msgspec.structs import replace

from protocol_codecs import ApiKey, CodecError, ErrorCode, MalformedMessage, Message, decode_bounded
from protocol_codecs.message import M
from protocol_codecs.messages.api_versions import (
    NODE_FROM,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from proxy.transport.node_table import NodeIdentity
from proxy.wire.frame_splitter import FrameError, FrameSplitter
from proxy.wire.framing import correlation_id_of, request_frame, response_body_offset

_MOST_BYTES = 16 * 1024 * 1024
_MOST_ELEMENTS = 500_000
_API_VERSIONS_VERSION = 3
"""The first with the finalized features; Kafka 2.4 and newer have it, older ones answer UNSUPPORTED_VERSION."""


class NoAnswerError(Exception):
    """The broker's answer can't be used: it is cut short or malformed, or belongs to another request."""


class ConnectionClosedError(NoAnswerError):
    """The broker has closed the connection without an answer, as brokers do if a client has to authenticate first."""


class WrongRouteError(NoAnswerError):
    """The connection leads to another broker than it is meant to reach; the message names whom it was meant to."""


class BrokerCalls:
    """Calls on a connected ``stream`` that no other task uses.

    An answer may have ``most_bytes``, and ``most_elements`` in its arrays. The caller sets deadlines.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        client_id: str,
        most_bytes: int = _MOST_BYTES,
        most_elements: int = _MOST_ELEMENTS,
    ) -> None:
        self._stream = stream
        self._client_id = client_id
        self._most_elements = most_elements
        self._splitter = FrameSplitter(most_bytes)
        self._ids = count(1)

    @property
    def has_leftovers(self) -> bool:
        """Whether the broker has sent more than it was asked for; the stream can't be handed to anybody else then."""
        return self._splitter.in_frame

    async def aclose(self) -> None:
        """Close the connection."""
        await trio.aclose_forcefully(self._stream)

    async def call(self, api_key: ApiKey, version: int, message: Message, response: type[M]) -> M:
        """Send a request and return its answer.

        :raises NoAnswerError: see there; the connection is of no use any more.
        """
        frame = await self.exchange(api_key, version, message)
        try:
            return self._decoded(api_key, version, frame, response, version)
        except CodecError as error:
            raise NoAnswerError(str(error)) from error

    async def api_versions(
        self, software_version: str, meant: NodeIdentity | None = None
    ) -> ApiVersionsResponse:
        """Request the broker's API versions and features; brokers answer it before authentication.

        A broker older than Kafka 2.4 answers in version 0 (KIP-511), without features. With ``meant`` a broker since
        Kafka 4.4 checks that it is this one (KIP-1242), but not before authentication; an older one answers with
        UNSUPPORTED_VERSION in version 0.

        :raises WrongRouteError: it is another one.
        :raises NoAnswerError: also if the answer is another error.
        """
        version = _API_VERSIONS_VERSION
        request = ApiVersionsRequest(
            client_software_name="epochgate", client_software_version=software_version
        )
        if meant is not None:
            version = NODE_FROM
            request = replace(request, cluster_id=meant.cluster_id, node_id=meant.node_id)
        frame = await self.exchange(ApiKey.API_VERSIONS, version, request)
        try:
            answer = self._decoded(ApiKey.API_VERSIONS, version, frame, ApiVersionsResponse, version)
        except CodecError as error:
            try:
                answer = self._decoded(ApiKey.API_VERSIONS, version, frame, ApiVersionsResponse, 0)
            except CodecError:
                raise NoAnswerError(str(error)) from error
        if meant is not None and answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            raise WrongRouteError(
                f"wrong route: this is not broker {meant.node_id} of the cluster {meant.cluster_id}"
            )
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            raise NoAnswerError(f"the answer to ApiVersions is the error {answer.error_code}")
        return answer

    async def exchange(self, api_key: ApiKey, version: int, message: Message) -> bytes:
        """Send a request and return the frame of its answer.

        :raises NoAnswerError: see :meth:`call`.
        """
        correlation_id = next(self._ids)
        try:
            with suppress(trio.BrokenResourceError):  # read what it sent before it closed the connection
                await self._stream.send_all(
                    request_frame(api_key, version, correlation_id, self._client_id, message)
                )
            frame = await self._frame()
            answered = correlation_id_of(frame)
        except trio.BrokenResourceError as error:
            raise ConnectionClosedError(
                str(error) or str(error.__cause__ or "the connection broke")
            ) from error
        except (FrameError, CodecError) as error:
            raise NoAnswerError(str(error)) from error
        if answered != correlation_id:
            raise NoAnswerError(
                f"the answer has the correlation id {answered}, and the request had {correlation_id}"
            )
        return frame

    async def _frame(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            while (piece := self._splitter.next_piece()) is not None:
                pieces.append(piece.data)
                if piece.last:
                    return b"".join(pieces)
            data = await self._stream.receive_some()
            if not data:
                raise ConnectionClosedError("the broker closed the connection instead of answering")
            self._splitter.feed(bytes(data))

    def _decoded(self, api_key: ApiKey, version: int, frame: bytes, response: type[M], as_version: int) -> M:
        """:raises CodecError: the frame does not hold this message and nothing else, or it has too many elements."""
        offset = response_body_offset(api_key, version, frame)
        message, end = decode_bounded(response, as_version, frame, offset, self._most_elements)
        if end != len(frame):
            raise MalformedMessage(
                response.__schema__.name, as_version, "the end", end, f"{len(frame) - end} bytes are left"
            )
        return message
