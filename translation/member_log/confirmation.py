"""Keeps on which connections a member is claimed, and on which its calls are served without asking the log again.

A call *claims* its member on the connection on which it came. When a record that was written after the claim counts,
the connection is *confirmed*: until its client is silent for half of a session, or the connection is closed, its calls
are served at once. What is claimed and confirmed lies in the member's :class:`~translation.member_log.entries.Entry`.
"""

import math

from translation.member_log.entries import Entry, Write
from translation.member_log.records import MemberKey


class Confirmations:
    """The claims and confirmed connections of all members. ``wait_s``: for how long a call waits for a verdict."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._by_connection: dict[int, set[MemberKey]] = {}

    def claim(self, key: MemberKey, entry: Entry, connection: int, until: float) -> None:
        """A call on this connection claims the member, and waits until then."""
        if connection not in entry.claims:
            entry.tries = 0
        entry.claims[connection] = until
        self._by_connection.setdefault(connection, set()).add(key)

    def settle(self, entry: Entry, write: Write, now: float) -> None:
        """A record of ours counts: confirm the connections that claimed the member before it was written."""
        for connection, until in write.claims.items():
            claimed = entry.claims.get(connection)
            if claimed == until:
                del entry.claims[connection]
            if claimed is not None and until < math.inf:  # heard when it called, however long the record took
                heard_at = min(now, until - self._wait_s)
                entry.confirmed[connection] = max(heard_at, entry.confirmed.get(connection, heard_at))

    def is_confirmed(self, entry: Entry, connection: int, now: float) -> bool:
        """Whether a call on this connection may be served without asking the log.

        A client that was silent here for half of its session may have been at another replica meanwhile, also if this
        connection stayed open.
        """
        heard_at = entry.confirmed.get(connection)
        return heard_at is not None and (now - heard_at) * 2000 < entry.terms.session_timeout_ms

    def drop_late(self, entry: Entry, now: float) -> None:
        """Drop the claims of calls that were answered without a verdict, because it took too long."""
        for connection in [connection for connection, until in entry.claims.items() if until <= now]:
            del entry.claims[connection]

    def close(self, connection: int) -> set[MemberKey]:
        """Forget a connection. Return the members that may have been claimed or confirmed there."""
        return self._by_connection.pop(connection, set())

    def forget(self, key: MemberKey, entry: Entry) -> None:
        """Forget a member."""
        for connection in (*entry.claims, *entry.confirmed):
            keys = self._by_connection.get(connection, set())
            keys.discard(key)
            if not keys:
                self._by_connection.pop(connection, None)
