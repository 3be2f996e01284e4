"""Tracks the share session of a connection, and whether records are locked in it (KIP-932), so that the connection
stays.

Why: a broker ties a share session to the connection that opened it. When that connection ends, it drops the session
and releases the records that the member had acquired there. Each release has cost one of the record's delivery
attempts (``group.share.delivery.count.limit``, 5 by default); after the last one the record is archived, processed or
not. So the proxy does not end a connection by itself while records are locked in its session, if it need not.

Theory of operation. A session is what a broker's answer has made of it: a request that was refused changes nothing.
One connection has one session; a member that opens another one there takes its place, as at the broker. What is locked
is counted in offsets: those that were acquired, less those whose acknowledgement was accepted. Where the count is not
certain it stays too high: when acknowledgements were refused for a part of the partitions, or a request was too large
to be read. Anyhow no lock outlasts the lock timeout of the last answer that acquired or renewed anything.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, ErrorCode
from proxy.wire.response_walks import ShareWalk
from proxy.wire.share_requests import CLOSES, OPENS, ShareRequest

_SHARE_FETCH = int(ApiKey.SHARE_FETCH)
_NONE = int(ErrorCode.NONE)
_SESSION_NOT_FOUND = int(ErrorCode.SHARE_SESSION_NOT_FOUND)
_LONGEST_LOCK_MS = 3_600_000
"""The most that brokers allow (``group.share.max.record.lock.duration.ms``)."""


class ShareSession:
    """The share session of one connection, if there is one.

    ``clock`` returns seconds. ``count`` is called with 1 when a session opens, with -1 when it ends.
    """

    __slots__ = ("_clock", "_count_open", "_locked_until", "_member", "_offsets", "is_open")

    def __init__(self, clock: Callable[[], float], count: Callable[[int], None] = lambda _: None) -> None:
        self.is_open = False
        """Whether the broker has a session that ends with the connection."""
        self._clock = clock
        self._count_open = count
        self._member: tuple[str, str] | None = None  # group and member id; None if the request was not read
        self._offsets = 0  # acquired and not acknowledged
        self._locked_until = 0.0

    @property
    def group_id(self) -> str:
        """The group of the session; empty if it is not known."""
        return self._member[0] if self._member is not None else ""

    @property
    def has_locks(self) -> bool:
        """Whether records may be locked that the broker releases when the connection ends."""
        return self.is_open and self._offsets > 0 and self._clock() < self._locked_until

    def connection_ended(self) -> None:
        """The broker drops the session. No answer follows."""
        self._close()

    def answered(self, api_key: int, request: ShareRequest | None, answer: ShareWalk) -> None:
        """Learn from a broker's answer to a ShareFetch or ShareAcknowledge; None is a request that was not read."""
        if not answer.ended:
            return  # the client has gone, and nobody walked through the rest
        if answer.error_code == _NONE:
            self._accepted(api_key, request, answer)
        elif answer.error_code == _SESSION_NOT_FOUND and request is not None and self._is_of(request):
            self._close()

    def _accepted(self, api_key: int, request: ShareRequest | None, answer: ShareWalk) -> None:
        if request is None:
            if not self.is_open:
                self._open(None)
            self._count(0, answer, renewed=True)
        elif request.epoch == OPENS and api_key == _SHARE_FETCH:
            if not self._is_of(request):
                self._open((request.group_id, request.member_id))
            self._count(request.acknowledged, answer, renewed=request.renews)
        elif self._is_of(request):
            if request.epoch == CLOSES:
                self._close()
                return
            self._member = (request.group_id, request.member_id)
            self._count(request.acknowledged, answer, renewed=request.renews)

    def _is_of(self, request: ShareRequest) -> bool:
        """Whether it is this member's session, as far as is known."""
        return self.is_open and self._member in {None, (request.group_id, request.member_id)}

    def _open(self, member: tuple[str, str] | None) -> None:
        if not self.is_open:
            self._count_open(1)
        self.is_open, self._member, self._offsets = True, member, 0

    def _close(self) -> None:
        """The broker has released what was locked."""
        if self.is_open:
            self._count_open(-1)
        self.is_open, self._offsets = False, 0

    def _count(self, acknowledged: int, answer: ShareWalk, *, renewed: bool) -> None:
        now = self._clock()
        if now >= self._locked_until and not renewed:
            self._offsets = 0
        if not answer.acknowledge_errors:
            self._offsets = max(0, self._offsets - acknowledged)
        self._offsets += answer.acquired
        if answer.acquired or renewed:
            lock_s = min(answer.lock_timeout_ms, _LONGEST_LOCK_MS) / 1000
            self._locked_until = max(self._locked_until, now + lock_s)
