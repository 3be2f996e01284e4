"""Tracks the members of one group from the translator's events."""

import msgspec

from translation.actions import Event


class MemberView(msgspec.Struct, frozen=True):
    """The state of a translated member; -1 where there is no generation or epoch."""

    state: str
    generation: int
    """The classic client's generation: the epoch at its last JoinGroup."""
    epoch: int
    """The broker's member epoch in the new protocol."""


class MemberTracker:
    """The members of one group by client id, which the demo makes unique."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._members: dict[str, MemberView] = {}

    def record(self, event: Event) -> bool:
        """Record an event. Returns whether it is about a member of this group."""
        if event.group_id != self._group_id or not event.member_id or event.client_id is None:
            return False
        self._members[event.client_id] = MemberView(event.state, event.generation, event.epoch)
        return True

    def of(self, client_id: str) -> MemberView | None:
        """Return the member with this client id; None before its first event."""
        return self._members.get(client_id)
