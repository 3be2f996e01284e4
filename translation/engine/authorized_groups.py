"""For which groups the broker has authorized each connection (:mod:`translation.admission.authorization`)."""

from collections import OrderedDict
from collections.abc import Iterator

from translation.actions import ConnectionId
from translation.policy.policy import LONGEST_GROUP_ID


class AuthorizedGroups:
    """The groups for which the broker has accepted a call, by connection.

    Each connection keeps the last ``limit`` groups. Group ids longer than :data:`LONGEST_GROUP_ID` are not kept: such a
    group is never translated. For a group that is no longer kept the broker is asked again.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: dict[ConnectionId, OrderedDict[str, None]] = {}

    def includes(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group."""
        groups = self._groups.get(connection_id)
        return groups is not None and group_id in groups

    def connections(self, group_id: str) -> Iterator[ConnectionId]:
        """The connections on which the broker has accepted a call for this group, newest first. It goes through all."""
        return (one for one, groups in reversed(self._groups.items()) if group_id in groups)

    def add(self, connection_id: ConnectionId, group_id: str) -> None:
        """Remember that the broker has accepted a call of this connection for this group."""
        if len(group_id) > LONGEST_GROUP_ID:
            return
        groups = self._groups.setdefault(connection_id, OrderedDict())
        groups[group_id] = None
        groups.move_to_end(group_id)
        if len(groups) > self._limit:
            groups.popitem(last=False)

    def withdraw(self, connection_id: ConnectionId, group_id: str) -> None:
        """The broker has refused a call of this connection for this group: ask again before the next one."""
        groups = self._groups.get(connection_id)
        if groups is not None:
            groups.pop(group_id, None)

    def forget(self, connection_id: ConnectionId) -> None:
        """Forget a connection that has ended."""
        self._groups.pop(connection_id, None)
