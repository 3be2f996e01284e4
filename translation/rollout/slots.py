"""Which slots of a group are taken, for how long, and which one the next member may take within a step: pure, from
the log and a description.

A slot is taken while its member may be one of the new protocol at the broker, or become one:

* from when a classic member is made to rejoin, or a newcomer is given its member id, for :data:`CLAIM_MS` at most;
* from when the broker has had the member until the broker describes the group without it, or the log says that it has
  ended.

Members of the new protocol that have no slot count too. There are some after a restart of a process without a log, or
after a time without steps.
"""

from collections.abc import Iterable, Mapping

import msgspec

from translation.member_log.group_records import Slot, StoredGroup

HIDDEN_MEMBERS = "the broker does not tell its clients who is in it"
"""Why a group whose members are hidden is not moved by steps."""

CLAIM_MS = 60_000
"""How long a slot may be reserved, by the log's clock, for a client that has not joined with it."""


class GroupMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group as the broker describes them; native members of the new protocol are left out."""

    is_consumer_group: bool
    translated: frozenset[str]
    """Ids of members of the new protocol that some process of Epochgate translates."""
    classic: frozenset[str]
    instances: Mapping[str, str]
    """The translated members by instance id."""
    static: frozenset[str] = frozenset()
    """The instance ids of all members, classic ones too: who comes with one of these makes the group no larger."""

    has_natives: bool = False
    """Whether native members of the new protocol are in the group."""

    is_hidden: bool = False
    """The sender may not see who is in the group: nothing else of this is known."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody at all is in the group."""
        return not (self.is_hidden or self.classic or self.translated or self.has_natives)

    def members(self, slots: Iterable[Slot]) -> int:
        """How many there are; a client that has joined anew and not left its classic membership yet counts once."""
        left = {slot.leaves for slot in slots if slot.member_id in self.translated}
        return len(self.translated) + len(self.classic - left)


def taken(
    slots: Mapping[int, StoredGroup],
    before: Mapping[int, StoredGroup],
    group_members: GroupMembers,
    ended: frozenset[str],
    now_ms: int,
) -> dict[int, Slot]:
    """The slots that are taken, by number.

    ``before`` are the slots as they were when the broker was asked for the ``group_members``: one that has changed
    since is taken. ``ended`` are the members of slots whose end the log knows.
    """
    found: dict[int, Slot] = {}
    for number, stored in slots.items():
        slot = stored.record.slot
        if slot is None or not slot.member_id or (slot.member_id in ended and not _is_of_classic(slot)):
            continue
        is_here = slot.member_id in group_members.translated
        is_reserved = not slot.begun and now_ms - stored.appended_ms <= CLAIM_MS
        if is_here or is_reserved or before.get(number) != stored:
            found[number] = slot
    return found


def _is_of_classic(slot: Slot) -> bool:
    """Whether it is reserved for a classic member that keeps its id: what has ended under it was before that."""
    return not slot.begun and slot.leaves == slot.member_id


def next_slot(held: Mapping[int, Slot], group_members: GroupMembers, quota: int) -> int | None:
    """The lowest slot that is free within the quota; None if there is none.

    Slots beyond the quota count as well: they were given out when it was larger.
    """
    without = group_members.translated - {slot.member_id for slot in held.values()}
    if len(held) + len(without) >= quota:
        return None
    return next(number for number in range(1, quota + 1) if number not in held)


def is_filled(held: Mapping[int, Slot], group_members: GroupMembers, quota: int) -> bool:
    """Whether as many members are translated as the quota allows, as the broker describes it."""
    return len(group_members.translated) >= quota and all(
        slot.member_id in group_members.translated for number, slot in held.items() if number <= quota
    )
