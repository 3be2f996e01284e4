"""Kafka's rules from a certificate's subject to a principal's name (``principal_mapping_rules``, as
``ssl.principal.mapping.rules``). Sans-IO.

Rules are separated by commas, and the first that matches the whole name counts: ``DEFAULT`` (the name as it is) or
``RULE:pattern/replacement/`` with ``L`` or ``U`` behind it for lower or upper case. What a rule does follows Kafka's
``SslPrincipalMapper``: once the pattern matches the whole name, each match in it is replaced, so a ``.*`` without ``^``
and ``$`` replaces the empty text at the end too.

Kafka's patterns are Java's, whose time is not bounded. These are RE2's, whose time grows with the name alone. What both
would read differently is refused when the rules are read: see :func:`_check_pattern`.
"""

import re
from typing import Any

import msgspec
import re2

from proxy.identity.distinguished_name import MOST_CHARS

MOST_RULES_CHARS = 16_384
MOST_RULES = 100
_PATTERN_MEMORY = 1024 * 1024
"""Bytes that RE2 may take for one pattern."""

_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"RULE:{_PART}/{_PART}/([LU]?)")
_SEPARATED = re.compile(r"\s*(?:,\s*|$)")
_UNKNOWN = re.compile(r"[^,]*")
_SAME_ESCAPES = frozenset("dDwWsS")
"""Escapes with a letter that Java and RE2 read alike in a name without control characters."""


class BadRules(Exception):
    """The rules can't be used; the message says which one and why."""


class NoPrincipal(Exception):
    """No rule gives the name a principal, or it is too long. The message does not show the name."""


class _Rule(msgspec.Struct, frozen=True):
    """A pattern; what replaces each match, as texts and numbers of groups; and how the case changes."""

    pattern: Any
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal's name, or None if the pattern does not match the whole name."""
        if self.pattern.fullmatch(name) is None:
            return None
        found = self._replaced(name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _replaced(self, name: str) -> str:
        parts: list[str] = []
        size = done = at = 0
        while at <= len(name) and (match := self.pattern.search(name, at)) is not None:
            new = [name[done : match.start()], *(self._part(match, one) for one in self.replacement)]
            size += sum(map(len, new))
            if size > MOST_CHARS:
                raise NoPrincipal(f"a rule makes a name of more than {MOST_CHARS} characters")
            parts += new
            done = match.end()
            at = done + 1 if match.end() == match.start() else done
        return "".join([*parts, name[done:]])

    @staticmethod
    def _part(match: Any, part: str | int) -> str:
        return part if isinstance(part, str) else match.group(part) or ""


class PrincipalRules:
    """The rules of one listener.

    :raises BadRules: the text is not a list of rules, or a rule means something else here than at a broker.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MOST_RULES_CHARS:
            raise BadRules(f"the rules have more than {MOST_RULES_CHARS} characters")
        self._rules = tuple(_read(text.strip()))
        if not self._rules:
            raise BadRules("there is no rule; Kafka's own is `DEFAULT`")

    def name_of(self, subject: str) -> str:
        """Return the principal's name for a subject in RFC 2253 form.

        :raises NoPrincipal: see there.
        """
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                if not name or len(name) > MOST_CHARS:
                    raise NoPrincipal("the principal's name is empty or too long")
                return name
        raise NoPrincipal("no rule of `principal_mapping_rules` matches the subject")


def _read(text: str) -> list[_Rule | None]:
    """Return the rules; None stands for ``DEFAULT``."""
    rules: list[_Rule | None] = []
    at = 0
    while at < len(text):
        if (rule := _RULE.match(text, at)) is not None:
            end = rule.end()
        else:
            end = at + len("DEFAULT") if text.startswith("DEFAULT", at) else at
        separator = _SEPARATED.match(text, end)
        if separator is None:
            unknown = _UNKNOWN.match(text, at)
            raise BadRules(
                f"{_shown('' if unknown is None else unknown[0])} is neither `DEFAULT` nor "
                "`RULE:pattern/replacement/` with `L` or `U` behind it"
            )
        if rule is not None:
            rules.append(_compiled(*rule.groups()))
        elif end > at:
            rules.append(None)
        if len(rules) > MOST_RULES:
            raise BadRules(f"there are more than {MOST_RULES} rules")
        at = separator.end()
    return rules


def _compiled(pattern: str, replacement: str, case: str) -> _Rule:
    _check_pattern(pattern)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise BadRules(f"the pattern {_shown(pattern)} can't be used: {said}") from None
    return _Rule(compiled, _parts(replacement, compiled.groups), case)


def _check_pattern(pattern: str) -> None:
    """Refuse what RE2 takes and Java reads differently, and what it would take for another reason.

    :raises BadRules: classes within classes and their ``&&``, groups with ``(?`` but for ``(?:``, and escapes of
        letters and digits but for ``\\d \\w \\s`` and their opposites.
    """
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        two = pattern[at : at + 2]
        if char == "\\":
            if two[1:].isalnum() and two[1:] not in _SAME_ESCAPES:
                raise BadRules(f"{two!r} in the pattern {_shown(pattern)} is not supported")
            at += 2
            continue
        if in_class and (char == "[" or two == "&&"):
            raise BadRules(f"a class within a class in the pattern {_shown(pattern)} is not supported")
        if (char == "[" and pattern[at + 1 : at + 2] == "]") or pattern[at : at + 3] == "[^]":
            raise BadRules(f"`]` at the start of a class in the pattern {_shown(pattern)} is not supported")
        if not in_class and two == "(?" and pattern[at : at + 3] != "(?:":
            raise BadRules(f"`(?` in the pattern {_shown(pattern)} is supported as `(?:` only")
        in_class = char == "[" or (in_class and char != "]")
        at += 1


def _parts(replacement: str, groups: int) -> tuple[str | int, ...]:
    """Read a replacement: ``\\x`` is x, ``$n`` a group with as many digits as name one.

    A number that no group has stays as it is written, as Kafka does it if the pattern has any group at all.

    :raises BadRules: a ``$`` or a backslash at which Kafka fails at each connection.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        char, following = replacement[at], replacement[at + 1 : at + 2]
        if char == "\\":
            parts.append(following)
            at += 2
        elif char != "$":
            parts.append(char)
            at += 1
        elif not (following.isascii() and following.isdigit()):
            raise BadRules(f"`$` in the replacement {_shown(replacement)} needs the number of a group")
        elif int(following) > groups:
            if not groups:
                raise BadRules(
                    f"the replacement {_shown(replacement)} names a group, and the pattern has none"
                )
            parts.append(f"${following}")
            at += 2
        else:
            number, at = int(following), at + 2
            while (digit := replacement[at : at + 1]).isascii() and digit.isdigit():
                if number * 10 + int(digit) > groups:
                    break
                number, at = number * 10 + int(digit), at + 1
            parts.append(number)
    return tuple(parts)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
