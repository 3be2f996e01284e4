"""Share sessions: which partitions a member fetches, without naming them in each request (KIP-932)."""

from collections.abc import Hashable, Iterable

import msgspec

from coordinator.errors import RequestRefused
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

INITIAL_EPOCH = 0
"""Opens a share session, in place of one that the member has."""
FINAL_EPOCH = -1
"""Closes the share session."""
_GREATEST_EPOCH = 0x7FFFFFFF


class SessionPartition(msgspec.Struct, frozen=True, order=True):
    """A partition in a share session."""

    topic_id: Uuid
    partition: int


class ClosedSession(msgspec.Struct, frozen=True):
    """A session that ended. The member's records in its partitions are to be released."""

    group_id: str
    member_id: str
    partitions: tuple[SessionPartition, ...]
    """Released by :meth:`~coordinator.share_partitions.in_flight.InFlightRecords.release`. Empty if the session had
    ended before its connection did."""
    is_group_empty: bool
    """Whether a connection ended and no session of the group is left: then Kafka forgets the group's share partitions,
    with what is acquired of them, and reads their state anew at the next fetch."""


class _Session:
    """The session of one member."""

    def __init__(self, group_id: str, member_id: str, connection: Hashable) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[SessionPartition, bool] = {}
        """In the order of fetching; True for those that the next answer names even if there is nothing new."""

    def advance(self) -> None:
        self.epoch = _after(self.epoch)


class SessionFetch:
    """One ShareFetch in its session."""

    def __init__(self, session: _Session, epoch: int, partitions: tuple[SessionPartition, ...]) -> None:
        self.partitions = partitions
        """What to fetch, in the order in which to try it, which changes from fetch to fetch."""
        self._session = session
        self._epoch = epoch

    def names(self, partition: SessionPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether the answer names a partition; asked once for each that was fetched, when the answer is made.

        The first answer of a session names all of them, a later one those with records or an error, those that the
        request added, and those that had an error the time before. Acknowledgements are answered for in any case.
        Raises RequestRefused with INVALID_SHARE_SESSION_EPOCH if another request has advanced the session meanwhile.
        """
        if self._epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            return True
        if self._session.epoch != _after(self._epoch):
            raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        known = self._session.partitions
        is_due = known.get(partition, True)
        if partition in known:
            known[partition] = has_error
            if has_records:
                known[partition] = known.pop(partition)
        return has_records or has_error or is_due


class _Binding(msgspec.Struct):
    """The session that was opened last on a connection."""

    key: tuple[str, str]
    is_stale: bool = False


class ShareSessions:
    """All share sessions of a broker. A session ends with the connection that it was opened on.

    A connection remembers only the session that was opened last on it, and forgets that one too when any session that
    was opened on it is closed or opened anew: so does Kafka's.
    """

    def __init__(self, max_sessions: int = 2_000) -> None:
        """Allow so many sessions: ``group.share.max.share.sessions``."""
        self._max_sessions = max_sessions
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._bindings: dict[Hashable, _Binding] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        connection: Hashable,
        partitions: Iterable[SessionPartition],
        forgotten: Iterable[SessionPartition] = (),
        has_acknowledgements: bool = False,
    ) -> SessionFetch:
        """Check and advance the epoch for a ShareFetch.

        At FINAL_EPOCH there is nothing to fetch; the caller calls :meth:`close` when the acknowledgements are done.
        Raises RequestRefused with INVALID_REQUEST (acknowledgements at INITIAL_EPOCH), SHARE_SESSION_LIMIT_REACHED
        (which Kafka answers only after the request's ``max_wait_ms``), SHARE_SESSION_NOT_FOUND, and
        INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise RequestRefused(ErrorCode.INVALID_REQUEST)
            session = self._open(group_id, member_id, connection)
            session.partitions = dict.fromkeys(partitions, False)
            return SessionFetch(session, epoch, tuple(session.partitions))
        session = self._session(group_id, member_id, epoch)
        if epoch == FINAL_EPOCH:
            return SessionFetch(session, epoch, ())
        for partition in partitions:
            session.partitions.setdefault(partition, True)
        for partition in forgotten:
            session.partitions.pop(partition, None)
        session.advance()
        return SessionFetch(session, epoch, _rotated(tuple(session.partitions), epoch))

    def acknowledge(self, group_id: str, member_id: str, epoch: int) -> None:
        """Check and advance the epoch for a ShareAcknowledge; at FINAL_EPOCH the caller calls :meth:`close` after it.

        Raises RequestRefused with INVALID_SHARE_SESSION_EPOCH (also at INITIAL_EPOCH) and SHARE_SESSION_NOT_FOUND.
        """
        if epoch == INITIAL_EPOCH:
            raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._session(group_id, member_id, epoch)
        if epoch != FINAL_EPOCH:
            session.advance()

    def close(self, group_id: str, member_id: str) -> ClosedSession | None:
        """End a session, if there is one; return what to release."""
        session = self._remove((group_id, member_id))
        if session is None:
            return None
        return ClosedSession(group_id, member_id, tuple(session.partitions), is_group_empty=False)

    def disconnected(self, connection: Hashable) -> ClosedSession | None:
        """End the session that was opened last on this connection; None if none was ever opened on it."""
        binding = self._bindings.pop(connection, None)
        if binding is None:
            return None
        group_id, member_id = binding.key
        session = None if binding.is_stale else self._remove(binding.key)
        return ClosedSession(
            group_id,
            member_id,
            () if session is None else tuple(session.partitions),
            is_group_empty=all(one.group_id != group_id for one in self._sessions.values()),
        )

    def _open(self, group_id: str, member_id: str, connection: Hashable) -> _Session:
        key = (group_id, member_id)
        self._remove(key)
        if len(self._sessions) >= self._max_sessions:
            raise RequestRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = _Session(group_id, member_id, connection)
        self._bindings[connection] = _Binding(key)
        session.advance()
        return session

    def _session(self, group_id: str, member_id: str, epoch: int) -> _Session:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise RequestRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in {FINAL_EPOCH, session.epoch}:
            raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def _remove(self, key: tuple[str, str]) -> _Session | None:
        session = self._sessions.pop(key, None)
        binding = None if session is None else self._bindings.get(session.connection)
        if binding is not None:
            binding.is_stale = True
        return session


def _after(epoch: int) -> int:
    return 1 if epoch == _GREATEST_EPOCH else epoch + 1


def _rotated(partitions: tuple[SessionPartition, ...], epoch: int) -> tuple[SessionPartition, ...]:
    """Return the partitions with another one first at each epoch, so that the limits of a fetch starve none."""
    first = epoch % len(partitions) if partitions else 0
    return partitions[first:] + partitions[:first]
