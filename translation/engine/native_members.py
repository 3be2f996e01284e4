"""The native members that this process has seen: those whose clients speak the new protocol themselves."""

from collections import OrderedDict

_LONGEST = 510
"""Characters of both ids together; longer ones are recognised by their form alone."""


class NativeMembers:
    """The last ``limit`` native members, by group id and member id: those whose ConsumerGroupHeartbeat the broker
    accepted on its way through here, and those that the broker described.

    What is forgotten is recognised again by the form of its id (:mod:`translation.engine.member_ids`).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._members: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._members

    def add(self, group_id: str, member_id: str) -> None:
        """Remember a native member of the broker."""
        if len(group_id) + len(member_id) > _LONGEST:
            return
        key = (group_id, member_id)
        self._members[key] = None
        self._members.move_to_end(key)
        if len(self._members) > self._limit:
            self._members.popitem(last=False)

    def discard(self, group_id: str, member_id: str) -> None:
        """Forget a member that has left; a classic client may come with its id."""
        self._members.pop((group_id, member_id), None)
