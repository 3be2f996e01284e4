"""``epochgate policy plan``: computes what a policy would change in a running proxy. Pure: the CLI fetches and
prints.

``epochgate policy plan`` prints :func:`plan_lines`, :func:`unused` and :func:`summary` for the groups of the admin
port's ``GET /api/groups``, with ``--output json`` :func:`plan` and :func:`unused_rules`.
"""

from collections.abc import Iterable, Iterator

import msgspec

from protocol_codecs.classic_clients import LOST_AT_ONCE
from proxy.config.policy_explanation import rule_for_group, rule_label
from proxy.config.refusals import why_not_under
from translation.actions import MemberProtocol
from translation.policy.client_offer import ClientOffer
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule
from translation.policy.steps import text_of
from translation.reasons import options

_TYPE_OF = {
    MemberProtocol.TRANSLATED: GroupType.CONSUMER,
    MemberProtocol.CLASSIC: GroupType.CONSUMER,
    MemberProtocol.CONNECT: GroupType.CONSUMER,
    MemberProtocol.CONSUMER: GroupType.CONSUMER,
    MemberProtocol.SHARE: GroupType.SHARE,
    MemberProtocol.STREAMS: GroupType.STREAMS,
}
"""The type of the group that a member with this protocol is in."""

_PROTOCOLS = frozenset(MemberProtocol)


class LiveReplica(msgspec.Struct, frozen=True, kw_only=True):
    """How many members of a group another replica serves, by the member log."""

    members: int


class LiveFleet(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group in the fleet: ``members`` in all, ``served_by`` at other replicas."""

    members: int
    served_by: tuple[LiveReplica, ...]


class LiveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many members do not come through the proxy that answers, as far as is known."""

    elsewhere: int


class LiveMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    protocol: str = ""
    """How it takes part in its group (:class:`translation.actions.MemberProtocol`); empty if that is not known."""


class LiveGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a group in ``GET /api/groups`` (docs/reference/api.md) that a plan needs."""

    id: str
    mode: Mode
    assignor: str | None
    """The policy's assignor; None if the clients' own choice applies."""
    members: tuple[LiveMember, ...]
    why_not: str | None
    """Why it can't be translated under the proxy's policy; None if it can, or if that is unknown."""
    progress: LiveProgress = LiveProgress(elsewhere=0)
    fleet: LiveFleet | None = None
    """None without a member log, and from a proxy that does not know it."""
    client: ClientOffer | None = None
    """What the client that joined last offers; None if no JoinGroup was seen, and from a proxy that does not tell."""
    notes: tuple[str, ...] = ()
    """What a translation changes for its clients."""

    @property
    def in_fleet(self) -> int:
        """The members here, and with a member log those that it names at other replicas."""
        return len(self.members) if self.fleet is None else self.fleet.members

    @property
    def unnamed(self) -> int:
        """With a member log: members that the broker has, and that neither come through here nor are in the log.

        Other replicas pass them through, or they do not come through Epochgate at all.
        """
        if self.fleet is None:
            return 0
        return max(0, self.progress.elsewhere - sum(one.members for one in self.fleet.served_by))


class LiveGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``GET /api/groups``."""

    groups: tuple[LiveGroup, ...]
    left_out: int = 0
    """The number of groups that the response omits because there are too many."""


class Move(msgspec.Struct, frozen=True, kw_only=True, tag_field="changes", tag="mode"):
    """A live group whose mode the new policy changes."""

    group: str
    members: int
    """Those of the fleet, with a member log."""
    unnamed: int = 0
    """Members that the broker has, and that neither come through the proxy nor are in its member log."""
    before: Mode
    after: Mode
    by: str
    """The rule that decides."""
    not_translatable: str | None = None
    options: str | None = None
    """What can be done about that."""
    steps: str | None = None
    """The steps by which it moves; None: as a whole."""
    hold_s: int = 0
    """For how long each of them but the last is held at least, all together."""
    wave: int | None = None
    """Its wave: the move begins when all earlier ones are over."""
    notes: tuple[str, ...] = ()
    """What the translation changes for its clients."""

    def __str__(self) -> str:
        members = _count(self.members, "member")
        if self.unnamed:
            members += f" and {self.unnamed} that the broker has and the member log does not name"
        where = f"{self.group}: {self.before} -> {self.after}, {members}, by {self.by}"
        if self.after is Mode.TRANSLATE and self.not_translatable is not None:
            return f"{where}; still passes through: {self.not_translatable}"
        if self.after is Mode.REJECT:
            return f"{where}; members are refused when they join again"
        if not self.members + self.unnamed:
            return f"{where}; applies to members that join later"
        if self.after is not Mode.TRANSLATE:
            return f"{where}; members rejoin as classic ones, in one rebalance"
        if self.wave is not None:
            where = f"{where}, in wave {self.wave}"
        how = "moved all at once" if LOST_AT_ONCE in self.notes else "converted in place"
        in_steps = "" if self.steps is None else f" in steps of {self.steps}"
        held = f", held for {_duration(self.hold_s)}" if self.hold_s else ""
        return f"{where}; {how}{in_steps}{held}"


class AssignorChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="changes", tag="assignor"):
    """A live translated group whose assignor at the broker the new policy changes."""

    group: str
    members: int
    before: str | None
    after: str | None
    by: str

    def __str__(self) -> str:
        members = _count(self.members, "member")
        before, after = (one or "the clients' own" for one in (self.before, self.after))
        return (
            f"{self.group}: assignor {before} -> {after}, {members}, by {self.by}; "
            "takes effect at the broker's next assignment (since Kafka 4.4: at once); "
            "members whose partitions change rejoin"
        )


class TypeConflict(msgspec.Struct, frozen=True, kw_only=True, tag_field="changes", tag="type"):
    """A live group with members that may not join a group of the type that the new policy says."""

    group: str
    members: int
    """Those of another type."""
    type: GroupType
    by: str

    def __str__(self) -> str:
        return (
            f"{self.group}: {_count(self.members, 'member')} of another type than {self.type}, by {self.by}; "
            "refused when they join again"
        )


class AllowanceChange(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="changes", tag="assignors_allowed"
):
    """A live group whose mode stays ``translate``, and that the new policy lets be translated, or no longer does."""

    group: str
    members: int
    by: str
    before: str | None
    """Why it can't be translated under the proxy's policy; None if it can."""
    after: str | None
    """The same under the new policy."""
    options: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{self.group}: {_count(self.members, 'member')}, by {self.by}"
        if self.after is None:
            return f"{where}; can be translated now, which was refused: {self.before}"
        return f"{where}; members that come anew pass through: {self.after}"


Change = Move | AssignorChange | AllowanceChange | TypeConflict


def plan(policy: Policy, groups: Iterable[LiveGroup]) -> list[Change]:
    """Return the live groups whose mode or assignor this policy would change, or whose type it denies, by name."""
    changes: list[Change] = []
    for group in sorted(groups, key=lambda one: one.id):
        number, rule = rule_for_group(policy, group.id)
        by = "the default" if number is None else rule_label(number, rule)
        members = group.in_fleet
        why_not = why_not_under(policy, rule, group.client, group.why_not)
        notes = group.notes if rule.mode is Mode.TRANSLATE and why_not is None else ()
        if rule.mode is not group.mode:
            changes.append(
                Move(
                    group=group.id,
                    members=members,
                    unnamed=group.unnamed,
                    before=group.mode,
                    after=rule.mode,
                    by=by,
                    steps=text_of(rule.staged) or None,
                    hold_s=rule.hold_s * max(0, len(rule.staged) - 1),
                    wave=rule.wave,
                    not_translatable=why_not,
                    options=options(why_not) if rule.mode is Mode.TRANSLATE else None,
                    notes=notes,
                )
            )
        elif rule.mode is Mode.TRANSLATE and (why_not is None) != (group.why_not is None):
            changes.append(
                AllowanceChange(
                    group=group.id,
                    members=members,
                    by=by,
                    before=group.why_not,
                    after=why_not,
                    options=options(why_not),
                    notes=notes,
                )
            )
        elif rule.mode is Mode.TRANSLATE and rule.assignor != group.assignor and why_not is None:
            changes.append(
                AssignorChange(
                    group=group.id, members=members, before=group.assignor, after=rule.assignor, by=by
                )
            )
        others = _of_another_type(group, rule)
        if rule.type is not None and others:
            changes.append(TypeConflict(group=group.id, members=others, type=rule.type, by=by))
    return changes


def _of_another_type(group: LiveGroup, rule: Rule) -> int:
    """Return how many members here are of another type than the rule says; of the others' protocol nothing is known."""
    if rule.type is None or rule.mode is Mode.REJECT:
        return 0
    types = [
        _TYPE_OF.get(MemberProtocol(one.protocol)) for one in group.members if one.protocol in _PROTOCOLS
    ]
    return sum(one is not None and one is not rule.type for one in types)


def plan_lines(changes: Iterable[Change]) -> Iterator[str]:
    """Yield a line for each change, and indented ones about what can be done and what changes for the clients."""
    for change in changes:
        yield str(change)
        if isinstance(change, AssignorChange | TypeConflict):
            continue
        if change.options is not None:
            yield f"  options: {change.options}"
        yield from (f"  note: {note}" for note in change.notes)


def unused_rules(policy: Policy, groups: Iterable[LiveGroup]) -> list[int]:
    """Return the numbers, from 1, of the rules that apply to none of the live groups and may be misspelt."""
    used = {rule_for_group(policy, group.id)[0] for group in groups}
    return [number for number in range(1, len(policy.rules) + 1) if number not in used]


def unused(policy: Policy, groups: Iterable[LiveGroup]) -> Iterator[str]:
    """A line for each of :func:`unused_rules`."""
    for number in unused_rules(policy, groups):
        yield f"{rule_label(number, policy.rules[number - 1])} applies to none of these groups"


def summary(changes: Iterable[Change], groups: int, left_out: int = 0) -> Iterator[str]:
    """Yield how many groups move to which mode, how many stay, and how many were not examined."""
    changes = list(changes)
    moves = [one for one in changes if isinstance(one, Move)]
    for mode in Mode:
        there = [move for move in moves if move.after is mode]
        blocked = [move for move in there if mode is Mode.TRANSLATE and move.not_translatable is not None]
        if there:
            members = sum(move.members for move in there if move not in blocked)
            but = f", {len(blocked)} of them not translatable" if blocked else ""
            verb = "moves" if len(there) == 1 else "move"
            yield f"{_count(len(there), 'group')} {verb} to {mode}{but}: {_count(members, 'member')}"
    others = [one for one in changes if isinstance(one, AssignorChange)]
    if others:
        verb = "gets" if len(others) == 1 else "get"
        members = sum(one.members for one in others)
        yield f"{_count(len(others), 'group')} {verb} another assignor: {_count(members, 'member')}"
    conflicts = [one for one in changes if isinstance(one, TypeConflict)]
    if conflicts:
        verb = "has" if len(conflicts) == 1 else "have"
        members = sum(one.members for one in conflicts)
        yield f"{_count(len(conflicts), 'group')} {verb} members of another type: {_count(members, 'member')}"
    allowed = [one for one in changes if isinstance(one, AllowanceChange)]
    for is_allowed, what in ((True, "can be translated now"), (False, "can't be translated any more")):
        touched = [one for one in allowed if (one.after is None) is is_allowed]
        if touched:
            members = sum(one.members for one in touched)
            yield f"{_count(len(touched), 'group')} {what}: {_count(members, 'member')}"
    changed = {one.group for one in changes}
    yield f"{_count(groups - len(changed), 'group')} unchanged"
    if left_out:
        yield f"{_count(left_out, 'group')} not examined: the proxy returns only its first {groups}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:g} s" if seconds < 120 else f"{minutes} min"
