"""Which mode each group runs in: an ordered list of rules, each for one group id or a pattern; the first match wins."""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

import msgspec
import re2
from msgspec import Meta

from protocol_codecs import ApiKey, ErrorCode
from translation.policy.group_type import JOINED_BY, GroupType
from translation.policy.steps import Step, parse_steps

_Name = Annotated[str, Meta(min_length=1)]


def _compile(pattern: str) -> Any:
    """Compile quietly: the caller says what is wrong, not the library's own log on stderr.

    ``.`` is any character: else a client would evade ``.*`` with a line break in its group id.
    """
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    return re2.compile(pattern, options)


class Mode(StrEnum):
    """What the proxy does with the calls of a group."""

    OBSERVE = "observe"
    """Pass everything through; classify and count only."""

    TRANSLATE = "translate"
    """Make each classic member a member of the new protocol."""

    REJECT = "reject"
    """Let nobody join: answer GROUP_AUTHORIZATION_FAILED."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One line of the policy: exactly one of ``group`` and ``pattern``, and what holds for what it matches."""

    mode: Annotated[
        Mode,
        Meta(
            description="`observe`: calls pass through, and are counted. `translate`: classic members become members "
            "of the new protocol. `reject`: nobody may join; members of every protocol are answered "
            "GROUP_AUTHORIZATION_FAILED."
        ),
    ]
    group: Annotated[
        _Name | None, Meta(description="The one group that is meant, by its id. Either this or `pattern`.")
    ] = None
    pattern: Annotated[
        _Name | None,
        Meta(
            description="All groups whose whole id matches this RE2 expression: `web-.*` for all that begin with "
            "`web-`. Either this or `group`."
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
    switch_pause_ms: Annotated[
        int,
        Meta(
            ge=0,
            description="Milliseconds between two members of a live group that are moved to `observe` or `translate`.",
        ),
    ] = 1000
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
        if (self.group is None) == (self.pattern is None):
            raise ValueError("a rule needs exactly one of `group` and `pattern`")
        if self.mode is Mode.TRANSLATE and self.type not in {None, GroupType.CONSUMER}:
            raise ValueError(
                f"a {self.type} group is never translated: `mode` has to be `observe` or `reject`"
            )
        if self.steps is not None:
            if self.mode is not Mode.TRANSLATE:
                raise ValueError(
                    "`steps` are those of a move to the new protocol: `mode` has to be `translate`"
                )
            parse_steps(self.steps)
        if self.pattern is not None:
            try:
                _compile(self.pattern)
            except re2.error as error:
                said = error.args[0].decode() if error.args else "unknown error"
                raise ValueError(f"pattern {self.pattern!r} is not an RE2 expression: {said}") from None

    @cached_property
    def staged(self) -> tuple[Step, ...]:
        """The steps by which a live group moves; empty if it moves as a whole."""
        return () if self.steps is None else parse_steps(self.steps)

    @cached_property
    def _compiled(self) -> Any:
        return None if self.pattern is None else _compile(self.pattern)

    def matches(self, group_id: str) -> bool:
        """Whether this rule speaks of the group."""
        if self._compiled is not None:
            return self._compiled.fullmatch(group_id) is not None
        return self.group == group_id

    def refusal(self, api_key: int) -> ErrorCode | None:
        """The error for whoever joins these groups by this API, one of
        :data:`~translation.policy.group_type.JOINED_BY`; None if they may.

        Brokers have two errors for groups of another type: an old one for JoinGroup, and that of KIP-848.
        """
        if self.mode is Mode.REJECT:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if self.type is None or self.type is JOINED_BY[api_key]:
            return None
        is_classic = api_key == ApiKey.JOIN_GROUP
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_classic else ErrorCode.GROUP_ID_NOT_FOUND


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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

    def rule_for(self, group_id: str) -> Rule:
        """The first rule that matches, or one made from the default."""
        for rule in self.rules:
            if rule.matches(group_id):
                return rule
        return Rule(mode=self.default, group=group_id)
