"""Which mode each group runs in (``observe``, ``translate``, ``reject``): an ordered list of rules, for groups by
name or by pattern; the first match wins. Also the error that a client gets that may not join (``reject``, a group of
another ``type``).

Names are looked up in an index, so a group costs the same however many are named. What patterns cost is bounded
(:mod:`translation.policy.pattern_index`).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from protocol_codecs import ApiKey, ErrorCode
from translation.policy.gates import AbortIf
from translation.policy.group_type import JOINED_BY, GroupType
from translation.policy.pattern_index import PatternIndex, compile_pattern
from translation.policy.steps import Step, parse_steps
from translation.policy.windows import MOST_WINDOWS, Window

LONGEST_GROUP_ID = 255
"""Characters. A client makes up as many group ids as it likes, of up to 32 KiB; a group with a longer one is never
translated or hosted, so that nothing has to be remembered of it."""

_REMEMBERED = 10_000
"""Groups whose rules are remembered."""
_NOT_YET = -1
_Name = Annotated[str, Meta(min_length=1)]


class Mode(StrEnum):
    """What the proxy does with the calls of a group."""

    OBSERVE = "observe"
    """Pass everything through; classify and count only."""

    TRANSLATE = "translate"
    """Make each classic member a member of the new protocol."""

    REJECT = "reject"
    """Let nobody join: answer GROUP_AUTHORIZATION_FAILED."""

    HOST = "host"
    """Serve the group calls here; the assignment is what an assignor of the clients computes. An experiment."""


class Approval(StrEnum):
    """Whether somebody has to approve each step of a move."""

    NONE = "none"
    REQUIRED = "required"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One line of the policy: one of ``group``, ``groups`` and ``pattern``, and what holds for what it matches."""

    mode: Annotated[
        Mode,
        Meta(
            description="`observe`: calls pass through, and are counted. `translate`: classic members become members "
            "of the new protocol. `reject`: nobody may join; members of every protocol are answered "
            "GROUP_AUTHORIZATION_FAILED. `host`: an experiment (docs/explanation/hosted-groups.md), refused without "
            "`experimental: true` in the configuration."
        ),
    ]
    group: Annotated[
        _Name | None,
        Meta(description="The one group that is meant, by its id. Either this, `groups` or `pattern`."),
    ] = None
    groups: Annotated[
        Annotated[tuple[_Name, ...], Meta(min_length=1)] | None,
        Meta(
            description="All the groups that are meant, by their ids; many cost no more than one to look up."
        ),
    ] = None
    pattern: Annotated[
        _Name | None,
        Meta(
            description="All groups whose whole id matches this RE2 expression: `web-.*` for all that begin with "
            "`web-`. Either this, `group` or `groups`."
        ),
    ] = None
    type: Annotated[
        GroupType | None,
        Meta(
            description="What these groups are: `consumer` (classic ones too), `share` or `streams`. Whoever joins as "
            "a member of another type is answered what a broker says of a group of this type. `null`: any; the "
            "broker lets the first member decide."
        ),
    ] = None
    assignor: Annotated[
        _Name | None,
        Meta(
            description="With `translate`: the broker's assignor for these groups, `range` or `uniform` unless the "
            "broker has others (`group.consumer.assignors`). `null`: `range` for clients whose first assignor is "
            "range, else `uniform`."
        ),
    ] = None
    steps: Annotated[
        tuple[int | str, ...] | None,
        Meta(
            description="With `translate`: how many members of a live group are translated at a time, as a rising list "
            "of numbers of members and then shares of those that the broker describes, rounded up: `[1, 10%, 50%, "
            "100%]`. Members beyond that stay classic, also those that come anew. `null`: a group moves as a whole."
        ),
    ] = None
    hold_s: Annotated[
        int,
        Meta(
            ge=0,
            description="With `steps`: for how many seconds each step is held, once as many members are translated "
            "as it allows, before the next begins.",
        ),
    ] = 600
    windows: Annotated[
        tuple[Window, ...],
        Meta(
            max_length=MOST_WINDOWS,
            description="With `steps`: only in these windows of time does a step begin, and are members told to join "
            "the new protocol. Outside nobody goes back. Empty: always.",
        ),
    ] = ()
    approval: Annotated[
        Approval,
        Meta(
            description="With `steps`: `required` if no step begins, also not the first, before somebody has approved "
            "it, by `epochgate approve` or by `approve`."
        ),
    ] = Approval.NONE
    approve: Annotated[
        int,
        Meta(
            ge=0,
            description="With `approval: required`: the steps up to this one, counted from 1, are approved here. 0: "
            "none.",
        ),
    ] = 0
    pause: Annotated[
        bool,
        Meta(
            description="With `steps`: `true` as long as no further member is to be translated and no step to begin. "
            "Those that are translated stay so."
        ),
    ] = False
    abort_if: Annotated[
        AbortIf | None,
        Meta(
            description="With `steps`: what stops the move and takes it back (docs/explanation/gates.md). `{}` has the "
            "defaults below. `null`: nothing but time decides whether the next step begins."
        ),
    ] = None
    wave: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="With `steps`, for groups that are named: the wave in which they move. None of them begins "
            "before those of all waves with a lower number are over (`waves`). `null`: they wait for nobody."
        ),
    ] = None
    proof_s: Annotated[
        int,
        Meta(
            ge=0,
            description="With `steps`: for how many seconds the live verification has to have proven the group, from "
            "when the step has settled, before the next begins (`verify.live`). 0: it need not be proven.",
        ),
    ] = 0
    unproven_override: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)] | None,
        Meta(
            description="With `proof_s`: who lets the next step begin although this one is not proven, and why, as "
            "`INC-123, Anna: the broker was restarted`. It is recorded in the move. `null`: it waits."
        ),
    ] = None

    owner: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="The team that these groups belong to, as `payments`. The status page shows it, and "
            "`/?owner=payments` is a link to them alone. It decides nothing."
        ),
    ] = None

    mend: Annotated[
        bool | None,
        Meta(
            description="Whether the broker, or the group's leader, is made to assign partitions that brokers have "
            "left to nobody. `null`: in translated groups, and in classic ones that were translated in the last day. "
            "`true`: in any classic group under `observe` too. `false`: never; it is only reported."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a rule that could never work, with what is wrong in the message."""
        if sum(one is not None for one in (self.group, self.groups, self.pattern)) != 1:
            raise ValueError("a rule needs exactly one of `group`, `groups` and `pattern`")
        if self.wave is not None and (self.steps is None or self.pattern is not None):
            raise ValueError(
                "`wave` needs `steps`, and `group` or `groups`: nobody knows how many groups a pattern matches"
            )
        if self.mode in {Mode.TRANSLATE, Mode.HOST} and self.type not in {None, GroupType.CONSUMER}:
            what = "translated" if self.mode is Mode.TRANSLATE else "hosted"
            raise ValueError(f"a {self.type} group is never {what}: `mode` has to be `observe` or `reject`")
        if self.steps is not None:
            if self.mode is not Mode.TRANSLATE:
                raise ValueError(
                    "`steps` are those of a move to the new protocol: `mode` has to be `translate`"
                )
            steps = parse_steps(self.steps)
            if self.abort_if is not None and steps[0].is_all:
                raise ValueError(
                    "`abort_if` needs a first step of less than 100%: before it the group is measured"
                )
        elif self.abort_if is not None:
            raise ValueError("`abort_if` stops a move by steps: it needs `steps`")
        elif self.proof_s:
            raise ValueError("`proof_s` is about `steps`, and the rule has none")
        if self.unproven_override is not None and not self.proof_s:
            raise ValueError("`unproven_override` is about `proof_s`, and the rule has none")
        self._check_control()
        if self.pattern is not None:
            _ = self.compiled

    def _check_control(self) -> None:
        """Refuse what limits steps where there are none that could be limited."""
        given = [
            name
            for name, is_given in (
                ("windows", self.windows),
                ("approval", self.approval is Approval.REQUIRED),
                ("approve", self.approve),
                ("pause", self.pause),
            )
            if is_given
        ]
        if given and self.steps is None:
            raise ValueError(f"`{given[0]}` is about `steps`, and the rule has none")
        if given and self.staged[0].is_all:
            raise ValueError(
                f"`{given[0]}`: a group whose only step is 100% moves when the policy says so; it needs a step before"
            )
        if self.approve and self.approval is Approval.NONE:
            raise ValueError("`approve` needs `approval: required`")

    @cached_property
    def staged(self) -> tuple[Step, ...]:
        """The steps by which a live group moves; empty if it moves as a whole."""
        return () if self.steps is None else parse_steps(self.steps)

    @cached_property
    def compiled(self) -> Any:
        """The pattern as RE2 has it; None if the rule has names."""
        return None if self.pattern is None else compile_pattern(self.pattern)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups that are meant by their ids; none with a pattern."""
        if self.group is not None:
            return (self.group,)
        return self.groups or ()

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(self.names)

    def matches(self, group_id: str) -> bool:
        """Whether this rule speaks of the group."""
        if self.compiled is not None:
            return self.compiled.fullmatch(group_id) is not None
        return group_id in self._named

    def refusal(self, api_key: int) -> ErrorCode | None:
        """The error for whoever joins these groups by this API, one of
        :data:`~translation.policy.group_type.JOINED_BY`; None if they may.

        Brokers have two errors for groups of another type: an old one for JoinGroup, and that of KIP-848.
        """
        if self.mode is Mode.REJECT:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        is_classic = api_key == ApiKey.JOIN_GROUP
        if (
            self.mode is Mode.HOST and not is_classic
        ):  # a member at the broker would own partitions beside those here
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.type is None or self.type is JOINED_BY[api_key]:
            return None
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_classic else ErrorCode.GROUP_ID_NOT_FOUND


class Waves(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """When the next wave of groups may begin (``wave`` of the rules)."""

    share: Annotated[
        str,
        Meta(
            description="The share of each wave's groups that have to be over before the next wave begins: at "
            "their last step, with as many members translated as it allows. A group that never joins is not over. "
            "Whatever the share, a group that is held or aborted stops the waves behind it."
        ),
    ] = "100%"

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        parse_steps((self.share,))

    @cached_property
    def needed(self) -> Step:
        """The share of a wave's groups."""
        return parse_steps((self.share,))[0]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """The rules in order, and the mode of groups that none of them matches."""

    default: Annotated[
        Mode, Meta(description="The mode of groups that no rule matches; see `rules[].mode`.")
    ] = Mode.OBSERVE
    rules: tuple[Rule, ...] = ()
    assignors_allowed: Annotated[
        tuple[_Name, ...],
        Meta(
            description="Client-side assignors that Epochgate does not know and that you vouch for: their clients do "
            "without them and get `range` or `uniform` instead, or what the rule's `assignor` says. Those that send "
            "user data need that `assignor`. `stream` (Kafka Streams) is refused."
        ),
    ] = ()
    waves: Waves = Waves()

    def __post_init__(self) -> None:
        """Refuse patterns whose cost nobody could bear."""
        _ = self._patterns

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The index of the first rule that names a group, by group id."""
        found: dict[str, int] = {}
        for number, rule in enumerate(self.rules):
            for name in rule.names:
                found.setdefault(name, number)
        return found

    @cached_property
    def _patterns(self) -> PatternIndex:
        return PatternIndex(
            (number, rule.compiled) for number, rule in enumerate(self.rules) if rule.pattern is not None
        )

    @cached_property
    def looked_up(self) -> dict[str, int | None]:
        """The numbers of the groups that were looked up lately."""
        return {}

    @cached_property
    def digest(self) -> str:
        """Names the policy (:mod:`translation.policy.policy`)."""
        return digest_of(self)

    def prepare(self, instead_of: "Policy | None" = None) -> None:
        """Compute beforehand, in a thread of the caller's, what :meth:`number_for` and others would when first called.

        The groups that were looked up in the policy before, ``instead_of``, are looked up in this one.
        """
        _ = self.wave_sizes, self.digest
        if instead_of is not None:
            for group_id in tuple(instead_of.looked_up):
                self.number_for(group_id)

    def number_for(self, group_id: str) -> int | None:
        """The index in ``rules`` of the first rule that matches; None if none does."""
        found = self.looked_up.get(group_id, _NOT_YET)
        if found != _NOT_YET:
            return found
        number = self._search(group_id)
        if len(group_id) <= LONGEST_GROUP_ID:
            if len(self.looked_up) >= _REMEMBERED:
                self.looked_up.clear()
            self.looked_up[group_id] = number
        return number

    def _search(self, group_id: str) -> int | None:
        named = self._numbers.get(group_id)
        matching = self._patterns.first(group_id, below=named)
        return named if matching is None else matching

    def rule_for(self, group_id: str) -> Rule:
        """The first rule that matches, or one made from the default."""
        number = self.number_for(group_id)
        return Rule(mode=self.default, group=group_id) if number is None else self.rules[number]

    @cached_property
    def wave_of(self) -> Mapping[str, int]:
        """The waves of the groups that are moved in one, by group id."""
        found = {}
        for group_id in self._numbers:
            number = self._search(group_id)
            if number is not None and (wave := self.rules[number].wave) is not None:
                found[group_id] = wave
        return found

    @cached_property
    def wave_sizes(self) -> Mapping[int, int]:
        """How many groups each wave has."""
        return Counter(self.wave_of.values())


_CHARACTERS = 16


def digest_of(policy: msgspec.Struct) -> str:
    """Sixteen hexadecimal digits that any change of the policy changes, but not one of comments or layout alone."""
    data = msgspec.json.encode(policy, order="deterministic")
    return hashlib.sha256(data).hexdigest()[:_CHARACTERS]
