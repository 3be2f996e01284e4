"""What is fuzzed. A target takes any bytes; whatever it raises is a bug.

Each knows which errors are right for bad bytes, and checks what must hold of good ones.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator
from functools import partial

from protocol_codecs import (
    ApiKey,
    CodecError,
    MalformedMessage,
    Message,
    TooManyElements,
    all_messages,
    decode,
    encode,
    reference,
)
from protocol_codecs.address_rewrite import (
    Rewritten,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata_brokers,
)
from protocol_codecs.messages import connect_protocol, consumer_protocol
from protocol_codecs.records import decode_batch, decode_record, decode_share_state_record, read_headers
from proxy.config.schema import Address, Limits
from proxy.metrics.registry import Metrics
from proxy.session.errors import ClientError, UpstreamError
from proxy.session.events import UpstreamNeeded
from proxy.session.listener import Listener
from proxy.session.request_metrics import RequestMetrics
from proxy.session.session import ClientSession
from proxy.wire.api_versions import ApiVersionsNegotiator
from proxy.wire.endpoint_rewriter import EndpointRewriter
from proxy.wire.frame_splitter import FrameError, FrameSplitter, Piece
from tests.fuzz import broker_answers, foreign_records, lines_and_frames, two_connections
from translation.actions import ConnectionId, Request

BROKER_HOST = b"b.internal"
"""The host of every broker in these targets; no client may ever read it as an address."""

_LIMITS = Limits(
    frame_max_bytes=400_000,
    first_frame_max_bytes=200_000,
    decoded_max_bytes=300_000,
    group_call_max_bytes=200_000,
    group_call_max_elements=1000,
    first_group_call_max_bytes=1024,
    in_flight_requests=8,
)
_FEW_ELEMENTS = 8
_METER = RequestMetrics(Metrics())
_OFFERS = ApiVersionsNegotiator(allow_unknown_apis=False)


def _declared() -> Iterator[tuple[type[Message], int]]:
    for name in all_messages.__all__:
        message_type = getattr(all_messages, name)
        if message_type.__schema__.versions.high < 0x7FFF:
            for version in message_type.__schema__.versions:
                yield message_type, version


DECLARED = tuple(_declared())
"""Every message in every version."""


def fuzz_messages(data: bytes) -> None:
    """The first two bytes choose a message, the others are its body. Both decoders agree, and what they read is
    written back as something that reads the same."""
    if len(data) < 2:
        return
    message_type, version = DECLARED[int.from_bytes(data[:2]) % len(DECLARED)]
    body = data[2:]
    plain = _outcome(lambda: reference.decode_whole(message_type, version, body, 0))
    compiled = _outcome(lambda: decode(message_type, version, body))
    if plain != compiled and repr(plain) != repr(compiled):  # NaN is not equal to itself
        raise AssertionError(f"{message_type.__name__} v{version}: {compiled!r}, but the reference {plain!r}")
    if isinstance(compiled, Message):
        again = decode(message_type, version, encode(compiled, version))
        if repr(again) != repr(compiled):
            raise AssertionError(
                f"{message_type.__name__} v{version}: {compiled!r} is read back as {again!r}"
            )


def _outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except MalformedMessage as error:
        return str(error)


def fuzz_embedded(data: bytes) -> None:
    """What consumers and Connect's workers embed in their calls, whose version stands in its first bytes.

    What is read is the same with a bound of elements, or there are too many of them.
    """
    readers: tuple[Callable[[bytes], object], ...] = (
        consumer_protocol.decode_subscription,
        consumer_protocol.decode_assignment,
        consumer_protocol.lacks_owned_partitions,
        consumer_protocol.has_user_data,
        connect_protocol.decode_metadata,
        connect_protocol.decode_assignment,
    )
    for read in readers:
        _outcome(partial(read, data))
    for read_bounded in (connect_protocol.decode_metadata, connect_protocol.decode_assignment):
        try:
            bounded = _outcome(partial(read_bounded, data, _FEW_ELEMENTS))
        except TooManyElements:
            continue
        if bounded != (plain := _outcome(partial(read_bounded, data))):
            raise AssertionError(f"{plain!r} is read, but with a bound {bounded!r}")


def fuzz_records(data: bytes) -> None:
    """Record batches, and the coordinator's records in them."""
    for read in (decode_batch, lambda batch: list(read_headers(batch))):
        with contextlib.suppress(CodecError):
            read(data)
    if data:
        key, value = data[1 : 1 + data[0]], data[1 + data[0] :]
        for read_record in (decode_record, decode_share_state_record):
            with contextlib.suppress(CodecError):
                read_record(key, value)


def _told(node_id: int, _host: str, _port: int) -> Address | None:
    return Address("proxy", 9100 + node_id) if 0 <= node_id < 10 else None


_REWRITERS: tuple[tuple[int, int, Callable[..., Rewritten]], ...] = (
    (ApiKey.METADATA, 13, rewrite_metadata_brokers),
    (ApiKey.FIND_COORDINATOR, 6, rewrite_find_coordinator),
    (ApiKey.DESCRIBE_CLUSTER, 2, rewrite_describe_cluster),
)


def fuzz_addresses(data: bytes) -> None:
    """The responses whose addresses are rewritten: it is done, or they are malformed."""
    if len(data) < 2:
        return
    _, newest, rewrite = _REWRITERS[data[0] % len(_REWRITERS)]
    with contextlib.suppress(MalformedMessage):
        rewrite(data[2:], data[1] % (newest + 1), _told)


def fuzz_node_endpoints(data: bytes) -> None:
    """Responses of Produce and Fetch in pieces of any sizes: what is passed on has the length that was announced."""
    if len(data) >= 12:
        _in_pieces((ApiKey.PRODUCE, 10, 13) if data[0] & 1 else (ApiKey.FETCH, 16, 18), data)


def fuzz_share_node_endpoints(data: bytes) -> None:
    """The same with responses of ShareFetch and ShareAcknowledge."""
    if len(data) >= 12:
        _in_pieces((ApiKey.SHARE_ACKNOWLEDGE, 1, 2) if data[0] & 1 else (ApiKey.SHARE_FETCH, 1, 2), data)


def _in_pieces(api: tuple[int, int, int], data: bytes) -> None:
    api_key, low, high = api
    version = low + data[1] % (high - low + 1)
    frame = struct.pack(">i", len(data) - 8) + data[8:]
    cuts = sorted({8 + cut * 7 % len(frame) for cut in data[2:6] if 8 + cut * 7 % len(frame) < len(frame)})
    rewriter = EndpointRewriter(api_key, version, _told)
    sent = b""
    try:
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(frame)], strict=True)):
            piece = Piece(frame[start:end], first=n == 0, last=end == len(frame), frame_size=len(frame))
            sent += rewriter.rewrite(piece)
    except MalformedMessage:
        return
    announced = struct.unpack(">i", sent[:4])[0] + 4
    if announced != len(sent):
        raise AssertionError(f"{announced} bytes were announced, {len(sent)} passed on")


def fuzz_frames(data: bytes) -> None:
    """A stream in chunks: nothing is lost or made up, and no more is held than has to be."""
    splitter = FrameSplitter(200_000)
    given = b""
    try:
        for chunk in _chunks(data):
            splitter.feed(chunk)
            while (piece := splitter.next_piece()) is not None:
                given += piece.data
    except FrameError:
        return
    if not b"".join(_chunks(data)).startswith(given):
        raise AssertionError("other bytes come out than went in")


def fuzz_connection(data: bytes) -> None:
    """Both sides of a connection send anything, in any order. It goes on, or ends by one of two errors.

    Each chunk begins with a byte that says which side sends it. What the proxy would ask the translation to
    do is forwarded.
    """
    talk = ClientSession(ConnectionId(1), "client", Listener(_told, _OFFERS, _LIMITS, _METER, lambda: 0.0))
    to_client = 0
    from_broker = 0
    upstream_open = False
    try:
        for chunk in _chunks(data):
            if not chunk:
                continue
            if chunk[0] & 1 and upstream_open:
                from_broker += len(chunk) - 1
                talk.responses.receive(chunk[1:])
            else:
                talk.receive_from_client(chunk[1:])
            upstream_open |= _turn(talk)
            to_client += sum(map(len, talk.to_client))
            talk.to_client.clear()
            talk.to_upstream.clear()
    except (ClientError, UpstreamError):
        pass


def fuzz_group_calls(data: bytes) -> None:
    """The same with the translation, observers and registry of a proxy behind the session: it ends alone, whatever it
    says of groups of any type, and nothing fails inside. See ``two_connections``.
    """
    two_connections.run(_chunks(data), _told, _LIMITS)


def fuzz_broker_answers(data: bytes) -> None:
    """A broker answers anything to the proxy's own calls for a translated member. See ``broker_answers``."""
    broker_answers.run(_chunks(data))


def fuzz_member_log(data: bytes) -> None:
    """Records of the member log's topic that anybody may have written. See ``foreign_records``."""
    foreign_records.read_log(_chunks(data))


def fuzz_child_frames(data: bytes) -> None:
    """What a process of a Kafka client may send its proxy. See ``lines_and_frames``."""
    lines_and_frames.read_frames(_chunks(data))


def _turn(talk: ClientSession) -> bool:
    """Do what the shell does; returns whether an upstream connection was opened."""
    opened = False
    talk.process()
    while talk.events:
        match talk.events.popleft():
            case UpstreamNeeded():
                talk.upstream_opened()
                opened = True
            case Request(request_id):
                talk.forward(request_id)
        talk.process()
    return opened


def _chunks(data: bytes) -> Iterator[bytes]:
    """Two bytes of length, then the chunk; so that a fuzzer can cut a stream where it likes."""
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2])
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


TARGETS: dict[str, Callable[[bytes], None]] = {
    "messages": fuzz_messages,
    "embedded": fuzz_embedded,
    "records": fuzz_records,
    "addresses": fuzz_addresses,
    "node_endpoints": fuzz_node_endpoints,
    "share_node_endpoints": fuzz_share_node_endpoints,
    "frames": fuzz_frames,
    "connection": fuzz_connection,
    "group_calls": fuzz_group_calls,
    "broker_answers": fuzz_broker_answers,
    "member_log": fuzz_member_log,
    "snapshots": foreign_records.read_snapshot,
    "hook_answers": foreign_records.read_answer,
    "journal_lines": lines_and_frames.read_line,
    "child_frames": fuzz_child_frames,
}
"""By the name of their folder in the corpus."""
