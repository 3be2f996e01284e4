"""Explains a policy rule by rule, in words, with warnings about likely mistakes.

``epochgate policy check`` prints :func:`explain`, with ``--output json`` :func:`rule_reports` and
:func:`assignor_notes`.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from protocol_codecs.classic_clients import KNOWN_ASSIGNORS
from translation.policy.assignors import SERVER_ASSIGNORS
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule
from translation.policy.steps import text_of

_MODE_EFFECT = {
    Mode.OBSERVE: "passed through and counted",
    Mode.TRANSLATE: "made members of the new protocol",
    Mode.REJECT: "refused with GROUP_AUTHORIZATION_FAILED",
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
    mode: Mode
    type: GroupType | None
    assignor: str | None
    switch_pause_ms: int
    steps: tuple[int | str, ...] | None
    hold_s: int
    notes: tuple[str, ...]


def rule_reports(policy: Policy) -> list[RuleReport]:
    """Return every rule in order, with the content of :func:`explain` for programs."""
    return [
        RuleReport(
            number=number,
            group=rule.group,
            pattern=rule.pattern,
            mode=rule.mode,
            type=rule.type,
            assignor=rule.assignor,
            switch_pause_ms=rule.switch_pause_ms,
            steps=rule.steps,
            hold_s=rule.hold_s,
            notes=tuple(_notes(policy, number, rule)),
        )
        for number, rule in enumerate(policy.rules, start=1)
    ]


def explain(policy: Policy) -> Iterator[str]:
    """Yield a line for each rule in order, and one for all other groups."""
    yield from assignor_notes(policy)
    for number, rule in enumerate(policy.rules, start=1):
        yield f"{rule_label(number, rule)}: {_describe(rule)}"
        yield from (f"  {note}" for note in _notes(policy, number, rule))
    yield f"all other groups: {policy.default}: clients are {_MODE_EFFECT[policy.default]}"


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


def rule_label(number: int, rule: Rule) -> str:
    """Return the name of a rule in printed lines."""
    what = f"group {rule.group}" if rule.pattern is None else f"groups that match {rule.pattern}"
    return f"rule {number} ({what})"


def rule_for_group(policy: Policy, group_id: str) -> tuple[int | None, Rule]:
    """Return the rule that decides for a group, with its number from 1; the number is None for the default."""
    for number, rule in enumerate(policy.rules, start=1):
        if rule.matches(group_id):
            return number, rule
    return None, policy.rule_for(group_id)


def _describe(rule: Rule) -> str:
    said = f"{rule.mode}: clients are {_MODE_EFFECT[rule.mode]}"
    if rule.mode is Mode.TRANSLATE and rule.assignor is not None:
        said += f", assigned by the server's {rule.assignor}"
    if rule.type is not None and rule.mode is not Mode.REJECT:
        said += f"; {_KEPT_OUT[rule.type]} may not join"
    if rule.mode is not Mode.REJECT:
        said += f"; a live group is moved one member every {rule.switch_pause_ms} ms"
    if rule.staged:
        said += f" in steps of {text_of(rule.staged)}, each held for {rule.hold_s} s"
    if rule.abort_if is not None:
        said += "; the move waits while its gates say so, and harm takes it back"
    return said


def _notes(policy: Policy, number: int, rule: Rule) -> Iterator[str]:
    """Yield warnings about likely mistakes in a rule."""
    earlier = _hidden_by(rule, policy.rules[: number - 1])
    if earlier is not None:
        yield f"never applies: {rule_label(*earlier)} already matches the same groups"
    if rule.pattern is not None and _LITERAL.fullmatch(rule.pattern):
        yield f"matches the group {rule.pattern} only: a pattern must match the whole id, as {rule.pattern}.* would"
    if rule.type is not None and rule.mode is Mode.REJECT:
        yield f"the type {rule.type} has no effect: nobody may join"
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


def _hidden_by(rule: Rule, before: Sequence[Rule]) -> tuple[int, Rule] | None:
    """Return an earlier rule that hides this one, as far as that can be determined, with its number."""
    for number, earlier in enumerate(before, start=1):
        same_pattern = rule.pattern is not None and rule.pattern == earlier.pattern
        if (
            same_pattern
            or earlier.pattern in _MATCH_ALL
            or (rule.group is not None and earlier.matches(rule.group))
        ):
            return number, earlier
    return None
