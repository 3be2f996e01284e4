"""Which mode each group runs in: an ordered list of rules, the first match wins."""

from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec
import re2


def _compile(pattern: str) -> Any:
    """Compile quietly: the caller says what is wrong, not the library's own log on stderr."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


class Mode(StrEnum):
    """What the proxy does with the calls of a group."""

    OBSERVE = "observe"
    """Pass everything through; classify and count only."""

    TRANSLATE = "translate"
    """Make each classic member a member of the new protocol."""

    REJECT = "reject"
    """Answer JoinGroup with GROUP_AUTHORIZATION_FAILED."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One line of the policy: exactly one of ``group`` and ``pattern``, and what holds for what it matches.

    ``group`` is the exact group id, ``pattern`` an RE2 expression that must match the whole id. ``assignor``
    overrides the server-side assignor ("range" or "uniform") that the client's own assignors would give.
    ``switch_pause_ms`` is the time between two members of a live group that are moved to this mode.
    """

    mode: Mode
    group: str | None = None
    pattern: str | None = None
    assignor: str | None = None
    switch_pause_ms: int = 1000

    def __post_init__(self) -> None:
        """Refuse a rule that could never work, with what is wrong in the message."""
        if (self.group is None) == (self.pattern is None):
            raise ValueError("a rule needs exactly one of `group` and `pattern`")
        if self.switch_pause_ms < 0:
            raise ValueError(f"switch_pause_ms must not be negative, but is {self.switch_pause_ms}")
        if self.pattern is not None:
            try:
                _compile(self.pattern)
            except re2.error as error:
                said = error.args[0].decode() if error.args else "unknown error"
                raise ValueError(f"pattern {self.pattern!r} is not an RE2 expression: {said}") from None

    @cached_property
    def _compiled(self) -> Any:
        return None if self.pattern is None else _compile(self.pattern)

    def matches(self, group_id: str) -> bool:
        """Whether this rule speaks of the group."""
        if self._compiled is not None:
            return self._compiled.fullmatch(group_id) is not None
        return self.group == group_id


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rules in order, and the mode of groups that none of them matches."""

    default: Mode = Mode.OBSERVE
    rules: tuple[Rule, ...] = ()

    def rule_for(self, group_id: str) -> Rule:
        """The first rule that matches, or one made from the default."""
        for rule in self.rules:
            if rule.matches(group_id):
                return rule
        return Rule(mode=self.default, group=group_id)
