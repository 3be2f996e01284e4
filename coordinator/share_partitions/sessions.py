"""Share sessions: which partitions a member fetches, without naming them in each request (KIP-932)."""

from collections.abc import Collection, Hashable, Iterable, Sequence

import msgspec

from protocol_codecs.uuids import Uuid

INITIAL_EPOCH = 0
"""Opens a share session, in place of one that the member has."""
FINAL_EPOCH = -1
"""Closes the share session."""


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
    """Whether no session of the group is left, with a connection that ended: then Kafka forgets the group's share
    partitions, and reads their state anew at the next fetch."""


class ShareSessions:
    """All share sessions of a broker. A session ends with the connection that it was opened on."""

    def __init__(self, max_sessions: int = 2_000) -> None:
        """Allow so many sessions: ``group.share.max.share.sessions``."""
        raise NotImplementedError

    def fetch(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        connection: Hashable,
        partitions: Sequence[SessionPartition],
        forgotten: Iterable[SessionPartition] = (),
        has_acknowledgements: bool = False,
    ) -> tuple[SessionPartition, ...]:
        """Return the partitions that a ShareFetch asks for, in the order in which to try them.

        At FINAL_EPOCH these are none; the caller calls :meth:`close` when the acknowledgements are done. Raises
        RequestRefused with INVALID_REQUEST (acknowledgements at INITIAL_EPOCH), SHARE_SESSION_LIMIT_REACHED (Kafka
        answers that only after the request's ``max_wait_ms``), SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        raise NotImplementedError

    def acknowledge(self, group_id: str, member_id: str, epoch: int) -> None:
        """Check and advance the epoch for a ShareAcknowledge; at FINAL_EPOCH the caller calls :meth:`close` after it.

        Raises RequestRefused with INVALID_SHARE_SESSION_EPOCH (also at INITIAL_EPOCH) and SHARE_SESSION_NOT_FOUND.
        """
        raise NotImplementedError

    def answered(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partition: SessionPartition,
        *,
        has_records: bool,
        has_error: bool,
    ) -> bool:
        """Whether a partition belongs into the answer to the ShareFetch of this epoch; called once for each.

        The first fetch names all partitions, later ones those with records or errors, those just added, and those
        whose error is gone.
        """
        raise NotImplementedError

    def close(self, group_id: str, member_id: str) -> ClosedSession | None:
        """End a session, if there is one; return what to release."""
        raise NotImplementedError

    def disconnected(self, connection: Hashable) -> ClosedSession | None:
        """End the session that was opened last on this connection; None if there was none."""
        raise NotImplementedError

    def sessions_of(self, group_id: str) -> Collection[str]:
        """Return the members of a group that have a session."""
        raise NotImplementedError
