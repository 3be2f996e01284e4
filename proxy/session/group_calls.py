"""Decides which group calls are decoded, and what happens to those that are too large
(``limits.group_call_max_bytes``, ``group_call_max_elements``, ``first_group_call_max_bytes``).

One thread decodes the calls of all connections, so a call is bounded in bytes before it is collected
(``limits.group_call_max_bytes``), and in array elements before it is decoded (``limits.group_call_max_elements``).
A call beyond these bounds:

- passes on undecoded, and unobserved, where the broker answers it anyway: groups that the policy does not translate,
  OffsetFetch and DescribeGroups, which change nothing, and SyncGroup, which is large only if a classic leader sends it;
- is refused if it is a JoinGroup of a group that the policy rejects, or that is of another type by the policy;
- ends its connection otherwise, as a broker does with a request above ``socket.request.max.bytes``.

Until the broker has answered an ordinary request on a connection, it is not known whether it accepts the client. Until
then the session does not read a group call above ``limits.first_group_call_max_bytes``; it probes the broker with a
Metadata request first.
"""

from collections.abc import Callable
from enum import Enum

from protocol_codecs import ApiKey, ErrorCode, Message, TooManyElements
from protocol_codecs.api_key import api_name
from protocol_codecs.messages.join_group import JoinGroupResponse
from proxy.session.errors import ClientError
from proxy.session.held_calls_budget import Reservation
from proxy.session.listener import Listener
from proxy.wire.bounded_decoding import read_group_call
from proxy.wire.frame_splitter import STREAM_ABOVE, Piece
from proxy.wire.framing import response_frame
from proxy.wire.request_header import RequestHeader, group_id_of
from proxy.wire.translated_apis import GUARDED
from translation.policy.policy import Mode

_JOIN_GROUP = int(ApiKey.JOIN_GROUP)
_ALWAYS_RELAYED = frozenset({ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS})


class Treatment(Enum):
    """What the session does with a group call."""

    DECODE = "decode"
    """Decode it: it has arrived completely."""

    COLLECT = "collect"
    """Collect the following pieces by :meth:`GroupCalls.add`, then decode the whole."""

    RELAY = "relay"
    """Relay it undecoded."""

    REFUSE = "refuse"
    """Answer :func:`refusal` and discard it, the following pieces too."""

    PROBE_BROKER = "probe broker"
    """Read no further until the broker has answered a request on this connection."""

    POSTPONE = "postpone"
    """Look at it when the translation has answered the calls before it."""

    WAIT = "wait"
    """Read no further until there is memory to collect it."""


_DECODE = Treatment.DECODE
"""Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded."""


class GroupCalls:
    """The group calls of one connection.

    ``on_unblocked`` is called when a call that had to :attr:`Treatment.WAIT` can go on. After
    :attr:`Treatment.PROBE_BROKER` the session calls :meth:`probe_answered`.
    """

    def __init__(self, listener: Listener, on_unblocked: Callable[[], None]) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._counted = listener.request_metrics.metrics.large_group_calls
        self._on_unblocked = on_unblocked
        self._probing = False
        self.reservation: Reservation | None = None
        """The memory that a large call has, or waits for."""
        self._collected = bytearray()
        self.refusal_code = ErrorCode.NONE
        """The error of the last JoinGroup that was to be refused."""

    @property
    def must_wait(self) -> bool:
        """Whether the call that has begun still has to wait."""
        return self._probing or (self.reservation is not None and not self.reservation.granted)

    def probe_answered(self, _answer: bytes) -> None:
        """The broker has answered the probe, so it has let the client in."""
        self._probing = False

    def begin(self, header: RequestHeader, piece: Piece, *, trusted: bool) -> Treatment:
        """Decide what to do with a group call that begins; ``trusted`` if the broker has let this client in.

        :raises ClientError: it is too large, and its group is translated, or it may be one that joins a guarded group.
        :raises HeaderError: it has no group id.
        """
        size, limits = piece.frame_size, self._limits
        if size > limits.group_call_max_bytes:
            reason = f"of {size} bytes, more than `limits.group_call_max_bytes`"
            return self._instead(header, piece, reason)
        if size > limits.first_group_call_max_bytes and not trusted:
            self._counted.labels("waited_for_broker").inc()
            self._probing = True
            return Treatment.PROBE_BROKER
        if size > STREAM_ABOVE and self.reservation is None:
            self.reservation = self._listener.held_calls.reserve(size, self._on_unblocked)
        if self.must_wait:
            self._counted.labels("waited_for_room").inc()
            return Treatment.WAIT
        if piece.last:
            return _DECODE
        self._collected = bytearray(piece.data)
        return Treatment.COLLECT

    def add(self, piece: Piece) -> None:
        """Collect another piece of a call."""
        self._collected += piece.data

    def take(self) -> bytes:
        """Return the whole frame of the call that was collected."""
        frame = bytes(self._collected)
        self._collected = bytearray()
        return frame

    def release(self) -> None:
        """Give back the memory of the call: it is held no longer, or never will be."""
        self._collected = bytearray()
        if self.reservation is not None:
            reservation, self.reservation = self.reservation, None
            self._listener.held_calls.release(reservation)

    def read(self, header: RequestHeader, frame: bytes) -> Message | Treatment:
        """Decode the call in a whole frame; if it has too many elements, return what to do with it instead.

        :raises ClientError: it has too many elements, and its group is translated or guarded.
        :raises MalformedMessage: it is none.
        :raises HeaderError: its header can't be read.
        """
        most = self._limits.group_call_max_elements
        try:
            return read_group_call(header, frame, most)
        except TooManyElements:
            reason = f"with more than {most} elements (`limits.group_call_max_elements`)"
            whole = Piece(frame, first=True, last=True, frame_size=len(frame))
            return self._instead(header, whole, reason)

    def _instead(self, header: RequestHeader, piece: Piece, reason: str) -> Treatment:
        if header.api_key in _ALWAYS_RELAYED:
            self._counted.labels("relayed").inc()
            return Treatment.RELAY
        group_id = group_id_of(piece.data, header)
        rule = self._listener.rule_for(group_id)
        if header.api_key == _JOIN_GROUP and (code := rule.refusal(_JOIN_GROUP)) is not None:
            self._counted.labels("refused").inc()
            self.refusal_code = code
            return Treatment.REFUSE
        if rule.mode in {Mode.TRANSLATE, Mode.HOST} or header.api_key in GUARDED:
            self._counted.labels("ended").inc()
            call = api_name(header.api_key)
            raise ClientError("group_call_too_large", f"a {call} of group {group_id[:255]!r} {reason}")
        self._counted.labels("relayed").inc()
        return Treatment.RELAY


def refusal(header: RequestHeader, code: ErrorCode) -> bytes:
    """Return the response frame for a JoinGroup that is refused undecoded."""
    message = JoinGroupResponse(error_code=code)
    return response_frame(_JOIN_GROUP, header.version, header.correlation_id, message)
