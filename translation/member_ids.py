"""The member ids that this process gave out, and those that a classic coordinator may get to know."""

from collections.abc import Callable
from hashlib import sha256

from translation.actions import ConnectionId

_LONGEST = 255
"""Characters of an id that is remembered as it is; of a longer one a hash is."""


class MemberIds:
    """Remembers the last ``limit`` of each. ``new_uuid`` makes an id that nobody has."""

    def __init__(self, new_uuid: Callable[[], str], limit: int) -> None:
        self._new_uuid = new_uuid
        self._limit = limit
        self._issued: dict[str, None] = {}
        self._joins_classic: dict[str, ConnectionId] = {}

    def issue(self) -> str:
        """A fresh member id. It is remembered that nobody had it before."""
        member_id = self._new_uuid()
        self.issued(member_id)
        return member_id

    def issued(self, member_id: str) -> None:
        """Nobody has had this id before."""
        self._issued[member_id] = None
        while len(self._issued) > self._limit:
            del self._issued[next(iter(self._issued))]

    def is_issued(self, member_id: str) -> bool:
        """Whether this process gave out the id, so that no classic coordinator can know it."""
        return member_id in self._issued

    def joins_classic(self, member_id: str, connection_id: ConnectionId) -> None:
        """A JoinGroup with this id is relayed on this connection: a classic coordinator gets to know the id."""
        self._issued.pop(member_id, None)
        if member_id:
            self._joins_classic[_key(member_id)] = connection_id
            while len(self._joins_classic) > self._limit:
                del self._joins_classic[next(iter(self._joins_classic))]

    def has_joined_classic(self, member_id: str) -> None:
        """Its SyncGroup shows that it has heard the answer."""
        self._joins_classic.pop(_key(member_id), None)

    def may_become_classic(self, member_id: str, connection_id: ConnectionId) -> bool:
        """Whether a JoinGroup of this client, which waits no more for its answer, may still reach the coordinator.

        It was relayed on another connection, and would make a member of the new protocol with this id a classic one.
        """
        return self._joins_classic.get(_key(member_id), connection_id) != connection_id


def _key(member_id: str) -> str:
    return member_id if len(member_id) <= _LONGEST else sha256(member_id.encode()).hexdigest()
