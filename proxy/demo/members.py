"""What the translation says of the members of one group, from its events."""

import msgspec

from translation.actions import Event


class MemberView(msgspec.Struct, frozen=True):
    """A member between the two protocols; -1 where there is no generation or epoch."""

    state: str
    generation: int
    """What the classic client knows: the epoch at its last JoinGroup."""
    epoch: int
    """What the broker knows: the member epoch of the new protocol."""


class MemberBoard:
    """The members of one group by client id, which the demo makes unique."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._members: dict[str, MemberView] = {}

    def saw(self, event: Event) -> bool:
        """Take an event in; whether it was about a member of this group."""
        if event.group_id != self._group_id or not event.member_id or event.client_id is None:
            return False
        self._members[event.client_id] = MemberView(event.state, event.generation, event.epoch)
        return True

    def of(self, client_id: str) -> MemberView | None:
        """The member of this client; None if the translation knows none."""
        return self._members.get(client_id)
