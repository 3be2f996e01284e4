"""On which connections the broker has accepted a group call, and for which groups
(:mod:`translation.admission.gate`)."""

from collections import OrderedDict

from translation.actions import ConnectionId
from translation.policy.rule_cache import LONGEST_GROUP_ID


class Admissions:
    """What the broker has accepted, by connection and group.

    A connection keeps the last ``groups_limit`` groups, and none with an id that is longer than groups have that are
    translated. One that is forgotten costs a question to the broker when it is named again.
    """

    def __init__(self, groups_limit: int) -> None:
        self._groups_limit = groups_limit
        self._admitted: dict[ConnectionId, OrderedDict[str, None]] = {}

    def admits(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group."""
        groups = self._admitted.get(connection_id)
        return groups is not None and group_id in groups

    def admit(self, connection_id: ConnectionId, group_id: str) -> None:
        """The broker has accepted a call of this connection for this group."""
        if len(group_id) > LONGEST_GROUP_ID:
            return
        groups = self._admitted.setdefault(connection_id, OrderedDict())
        groups[group_id] = None
        groups.move_to_end(group_id)
        if len(groups) > self._groups_limit:
            groups.popitem(last=False)

    def withdraw(self, connection_id: ConnectionId, group_id: str) -> None:
        """The broker has refused a call of this connection for this group."""
        groups = self._admitted.get(connection_id)
        if groups is not None:
            groups.pop(group_id, None)

    def forget(self, connection_id: ConnectionId) -> None:
        """The connection has ended."""
        self._admitted.pop(connection_id, None)
