"""Which groups need action and stand first in the status page's list; by wave; filtered and sorted as a link says."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

from proxy.groups.snapshot import GroupView
from translation.member_log.group_records import Phase
from translation.moving.move_view import MoveView


class Standing(StrEnum):
    """Where a group stands; what needs action comes first."""

    STUCK = "stuck"
    """It is stuck, or brokers left partitions of it without an owner and it is not mended."""
    ABORTED = "aborted"
    HELD = "held"
    TO_APPROVE = "to approve"
    MOVING = "moving"
    """Members change to the new protocol, or back."""
    REBALANCING = "rebalancing"
    WAITING = "waiting"
    """For its wave, a window of time or a hook, or because somebody has paused it or taken it back."""
    LAST_STEP = "at its last step"
    """It has settled there, the policy has no further step, and not all members are translated."""
    BLOCKED = "not translatable"
    CLASSIC = "not begun"
    MIGRATED = "on the new protocol"
    OTHER = "no members"
    """Also a group that has no other protocol to move to."""


FOR_A_PERSON = (Standing.STUCK, Standing.ABORTED, Standing.HELD, Standing.TO_APPROVE)
_RANK = {standing: number for number, standing in enumerate(Standing)}
_STOPPED: Mapping[str, Standing] = {Phase.HELD: Standing.HELD, Phase.ABORTED: Standing.ABORTED}


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a link to the list asks for; an empty text asks for nothing. ``sort`` is one of :data:`SORTS`."""

    q: str = ""
    standing: str = ""
    wave: str = ""
    owner: str = ""
    sort: str = ""

    @property
    def chooses(self) -> bool:
        """Whether some groups are left out."""
        return bool(self.q or self.standing or self.wave or self.owner)


class Lane(msgspec.Struct, frozen=True):
    """A wave: its number, and how many of its groups stand where, in the order of :class:`Standing`."""

    wave: int
    groups: int
    standings: Mapping[Standing, int]


def needs_help(group: GroupView) -> bool:
    """Whether it is stuck, or has partitions without an owner and is not mended."""
    return group.stuck is not None or (group.unowned is not None and group.unowned.why_not != "")


def is_stopped(group: GroupView) -> bool:
    """Whether the move of a group is held or taken back, without that a person has said so."""
    return group.move is not None and group.move.phase in _STOPPED


def standing_of(group: GroupView) -> Standing:
    """Return where a group stands."""
    if needs_help(group):
        return Standing.STUCK
    progress = group.progress
    if group.move is not None and (of_move := _of_move(group.move, progress.translated)) is not None:
        return of_move
    if group.state == "Rebalancing":
        return Standing.REBALANCING
    if progress.total and progress.done == progress.total:
        return Standing.MIGRATED
    if group.why_not is not None:
        return Standing.BLOCKED
    if group.mode == "translate" and progress.done:
        return Standing.MOVING if group.move is None or group.move.phase == Phase.OVER else Standing.LAST_STEP
    return Standing.CLASSIC if progress.total else Standing.OTHER


def _of_move(move: MoveView, translated: int) -> Standing | None:
    """Return where the move of a group with so many translated members stands; None if nothing of it is left to do."""
    if move.phase in _STOPPED:
        return _STOPPED[move.phase]
    if move.needs_approval:
        return Standing.TO_APPROVE
    if move.phase == Phase.OVER or (move.is_last and move.settled):
        return None
    is_moving = move.phase == Phase.MOVING or (move.phase == Phase.ROLLED_BACK and translated)
    return Standing.MOVING if is_moving else Standing.WAITING


SORTS: Mapping[str, Callable[[GroupView], tuple[object, ...]]] = {
    "": lambda group: (_RANK[standing_of(group)],),
    "group": lambda _: (),
    "wave": lambda group: (group.wave is None, group.wave),
    "lag": lambda group: (group.lag is None, -(group.lag or 0)),
    "members": lambda group: (-group.progress.total,),
}
"""By what the list can be sorted, each then by id; what needs action comes first unless something else is said."""


def chosen(groups: Iterable[GroupView], query: Query) -> list[GroupView]:
    """Return the groups that a query asks for, sorted as it says."""
    words = query.q.casefold().split()
    found = [
        group
        for group in groups
        if (not query.standing or standing_of(group) == query.standing)
        and (not query.wave or str(group.wave) == query.wave)
        and (not query.owner or group.owner == query.owner)
        and all(
            any(word in text.casefold() for text in (group.id, group.mode, group.state, group.protocol))
            for word in words
        )
    ]
    key = SORTS.get(query.sort, SORTS[""])
    return sorted(found, key=lambda group: (*key(group), group.id))


def lanes(groups: Iterable[GroupView]) -> list[Lane]:
    """Return the waves that groups belong to, in order."""
    waves: dict[int, Counter[Standing]] = {}
    for group in groups:
        if group.wave is not None:
            waves.setdefault(group.wave, Counter())[standing_of(group)] += 1
    return [
        Lane(wave, counts.total(), {one: counts[one] for one in Standing if counts[one]})
        for wave, counts in sorted(waves.items())
    ]


def totals(groups: Iterable[GroupView]) -> dict[str, int]:
    """Return the sums over all groups that the list begins with."""
    found = {"groups": 0, "done": 0, "total": 0, "rebalancing": 0, "for_a_person": 0}
    for group in groups:
        found["groups"] += 1
        found["done"] += group.progress.done
        found["total"] += group.progress.total
        found["rebalancing"] += group.state == "Rebalancing"
        found["for_a_person"] += standing_of(group) in FOR_A_PERSON
    return found
