"""``epochgate policy check``: explains a policy rule by rule, in words, and what it warns of as likely mistakes.

``epochgate policy check`` prints :func:`explain`, with ``--output json`` :func:`rule_reports` and
:func:`assignor_notes`.
"""

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from protocol_codecs.classic_clients import KNOWN_ASSIGNORS, LOST_AT_ONCE
from translation.policy.assignors import SERVER_ASSIGNORS
from translation.policy.group_type import GroupType
from translation.policy.policy import LONGEST_GROUP_ID, Approval, Mode, Policy, Rule
from translation.policy.steps import text_of
from translation.policy.windows import text_of as windows_text

_MODE_EFFECT = {
    Mode.OBSERVE: "passed through and counted",
    Mode.TRANSLATE: "made members of the new protocol",
    Mode.REJECT: "refused with GROUP_AUTHORIZATION_FAILED",
    Mode.HOST: "served by the proxy itself, an experiment",
}

_KEPT_OUT = {
    GroupType.CONSUMER: "share and streams members",
    GroupType.SHARE: "consumers, classic ones too, and streams members",
    GroupType.STREAMS: "consumers, classic ones too, and share members",
}

_MATCH_ALL = frozenset({".*", ".+"})
"""Patterns that match every group id."""

_BUILT_IN_ASSIGNORS = frozenset({"range", "uniform"})
"""The assignors that every broker has unless its ``group.consumer.assignors`` says otherwise."""

_LITERAL = re.compile(r"[\w-]+")
"""A pattern without metacharacters, which matches one group only."""


class RuleReport(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a policy, with warnings about likely mistakes."""

    number: int
    """Its position in the file, from 1."""
    group: str | None
    pattern: str | None
    groups: int | None
    """With `groups`: how many."""
    mode: Mode
    type: GroupType | None
    assignor: str | None
    steps: tuple[int | str, ...] | None
    hold_s: int
    wave: int | None
    proof_s: int
    unproven_override: str | None
    notes: tuple[str, ...]


class WaveReport(msgspec.Struct, frozen=True, kw_only=True):
    """A wave of groups, and which waves have to be over before it begins."""

    wave: int
    groups: int
    after: tuple[int, ...]


def rule_reports(policy: Policy) -> list[RuleReport]:
    """Return every rule in order, with the content of :func:`explain` for programs."""
    return [
        RuleReport(
            number=number,
            group=rule.group,
            pattern=rule.pattern,
            groups=None if rule.groups is None else len(rule.groups),
            mode=rule.mode,
            type=rule.type,
            assignor=rule.assignor,
            steps=rule.steps,
            hold_s=rule.hold_s,
            wave=rule.wave,
            proof_s=rule.proof_s,
            unproven_override=rule.unproven_override,
            notes=tuple(_notes(policy, number, rule, earlier)),
        )
        for number, rule, earlier in _with_earlier(policy)
    ]


def wave_reports(policy: Policy) -> list[WaveReport]:
    """Return every wave in order."""
    counted = Counter(policy.wave_of.values())
    waves = sorted(counted)
    return [
        WaveReport(wave=wave, groups=counted[wave], after=tuple(waves[:number]))
        for number, wave in enumerate(waves)
    ]


def explain(policy: Policy) -> Iterator[str]:
    """Yield a line for each rule in order, and one for all other groups."""
    yield from assignor_notes(policy)
    for number, rule, earlier in _with_earlier(policy):
        yield f"{rule_label(number, rule)}: {_describe(rule)}"
        yield from (f"  {note}" for note in _notes(policy, number, rule, earlier))
    for one in wave_reports(policy):
        yield f"wave {one.wave}: {groups_text(one.groups)}; {_begins(policy, one)}"
    yield f"all other groups: {policy.default}: clients are {_MODE_EFFECT[policy.default]}"
    note = note_on_moves(policy)
    if note is not None:
        yield note


def note_on_moves(policy: Policy) -> str | None:
    """What the file does not say of the groups that it translates; None if it translates none."""
    if Mode.TRANSLATE not in {policy.default, *(rule.mode for rule in policy.rules)}:
        return None
    return (
        "not known from the file: a live group is converted in place, with two exceptions: user data in its "
        f"assignments, and kafka-go; {LOST_AT_ONCE}"
    )


def assignor_notes(policy: Policy) -> Iterator[str]:
    """Yield a line for each name in ``assignors_allowed``: what allowing it does."""
    seen = set[str]()
    for name in policy.assignors_allowed:
        if name in KNOWN_ASSIGNORS:
            yield f"assignor {name}: no effect: it is known, its groups get {SERVER_ASSIGNORS[name]}"
        elif name in seen:
            yield f"assignor {name}: named twice"
        else:
            yield (
                f"assignor {name}: its groups get uniform, unless their rule names an assignor, which those whose "
                "subscriptions carry user data need"
            )
        seen.add(name)


def _begins(policy: Policy, wave: WaveReport) -> str:
    if not wave.after:
        return "waits for no other"
    before = ", ".join(map(str, wave.after))
    waves = "wave" if len(wave.after) == 1 else "each of the waves"
    return (
        f"begins when {policy.waves.share} of {waves} {before} is over, and no group there is held or aborted"
    )


def groups_text(number: int) -> str:
    """Return so many groups, in words."""
    return "1 group" if number == 1 else f"{number} groups"


def rule_label(number: int, rule: Rule) -> str:
    """Return the name of a rule in printed lines."""
    if rule.pattern is not None:
        return f"rule {number} (groups that match {rule.pattern})"
    return f"rule {number} ({f'group {rule.names[0]}' if len(rule.names) == 1 else groups_text(len(rule.names))})"


def rule_for_group(policy: Policy, group_id: str) -> tuple[int | None, Rule]:
    """Return the rule that decides for a group, with its number from 1; the number is None for the default."""
    number = policy.number_for(group_id)
    return (None, policy.rule_for(group_id)) if number is None else (number + 1, policy.rules[number])


def _describe(rule: Rule) -> str:
    said = f"{rule.mode}: clients are {_MODE_EFFECT[rule.mode]}"
    if rule.mode is Mode.TRANSLATE and rule.assignor is not None:
        said += f", assigned by the server's {rule.assignor}"
    if rule.type is not None and rule.mode is not Mode.REJECT:
        said += f"; {_KEPT_OUT[rule.type]} may not join"
    if rule.staged:
        said += f"; a live group is moved in steps of {text_of(rule.staged)}, each held for {rule.hold_s} s"
    if rule.wave is not None:
        said += f", in wave {rule.wave}"
    if rule.proof_s:
        said += f" and until it is proven for {rule.proof_s} s"
    if rule.unproven_override is not None:
        said += f", or unproven ({rule.unproven_override})"
    if rule.approval is Approval.REQUIRED:
        approved = f"; steps up to {rule.approve} are" if rule.approve else ""
        said += f", once it is approved{approved}"
    if rule.windows:
        said += f", and only in windows of time: {windows_text(rule.windows)}"
    if rule.pause:
        said += "; paused"
    if rule.abort_if is not None:
        said += "; the move waits while its gates say so, and harm takes it back"
    return said


def _notes(policy: Policy, number: int, rule: Rule, earlier: tuple[int, Rule] | None) -> Iterator[str]:
    """Yield warnings about likely mistakes in a rule; ``earlier`` is one that hides it."""
    if earlier is not None:
        yield f"never applies: {rule_label(*earlier)} already matches the same groups"
    elif rule.groups is not None:
        hidden = [name for name in rule.names if policy.number_for(name) != number - 1]
        if hidden:
            yield f"does not apply to {groups_text(len(hidden))} of them, {hidden[0]} among them: an earlier rule does"
        elif len(set(rule.names)) < len(rule.names):
            yield "names a group twice"
    too_long = [name for name in rule.names if len(name) > LONGEST_GROUP_ID]
    if rule.mode is Mode.TRANSLATE and too_long:
        longest = f"ids of more than {LONGEST_GROUP_ID} characters"
        yield f"{groups_text(len(too_long))} of them with {longest}: such a group is never translated"
    if rule.pattern is not None and _LITERAL.fullmatch(rule.pattern):
        yield f"matches the group {rule.pattern} only: a pattern must match the whole id, as {rule.pattern}.* would"
    if rule.proof_s:
        yield "not known from the file: `proof_s` needs the live verification (`verify.live`), else no step is proven"
    if rule.type is not None and rule.mode is Mode.REJECT:
        yield f"the type {rule.type} has no effect: nobody may join"
    if rule.mode is Mode.HOST:
        yield "not known from the file: `mode: host` needs `experimental: true` in the configuration, and one process"
    if rule.assignor is not None and rule.mode is not Mode.TRANSLATE:
        yield f"the assignor {rule.assignor} has no effect: only translated groups get one"
    elif rule.assignor is not None and rule.assignor not in _BUILT_IN_ASSIGNORS:
        yield f"the broker must have the assignor {rule.assignor} (group.consumer.assignors)"
    yield from _notes_on_steps(rule)


def _notes_on_steps(rule: Rule) -> Iterator[str]:
    """Yield what steps need that the file does not tell, and where they end."""
    if not rule.staged or rule.staged[0].is_all:
        return
    yield (
        "not known from the file: steps need brokers with group.consumer.migration.policy=bidirectional (Kafka's "
        "default), and `fleet` where several processes serve a group"
    )
    yield "groups that are moved all at once stay classic until a step of 100% is the only one"
    if not rule.staged[-1].is_all:
        yield f"ends at {rule.staged[-1]}: the other members of each group stay classic"


def _with_earlier(policy: Policy) -> Iterator[tuple[int, Rule, tuple[int, Rule] | None]]:
    """Yield each rule with its number, and an earlier one that hides it, as far as that can be determined."""
    patterns: dict[str, int] = {}
    matches_all: int | None = None
    for number, rule in enumerate(policy.rules, start=1):
        found = matches_all
        if rule.pattern is not None:
            found = min((one for one in (found, patterns.get(rule.pattern)) if one is not None), default=None)
            patterns.setdefault(rule.pattern, number)
        else:
            first = {policy.number_for(name) for name in rule.names}
            if len(first) == 1 and (only := first.pop()) is not None and only != number - 1:
                found = only + 1
        yield number, rule, None if found is None else (found, policy.rules[found - 1])
        if matches_all is None and rule.pattern in _MATCH_ALL:
            matches_all = number
