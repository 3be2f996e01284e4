"""Finds the first of many patterns (``pattern``) that matches a group id, at a bounded cost, and refuses a policy
whose patterns cost too much.

A pattern is tried only if the id begins with the literal text that every id it matches begins with (``web-`` of
``web-.*``). So patterns that begin with different texts cost an id nothing. Those that one id can meet may have so many
instructions together: RE2 reads an id in time proportional to them, at worst, and to the id.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import re2

MOST_INSTRUCTIONS = 10_000
"""Instructions of RE2's programs that one group id may meet: some 500 patterns such as ``.*-orders``, and any number
that begin with different texts. A lookup of an id of 255 characters then takes a
millisecond, or 30 if the patterns are made for it (``.*a.{20}``)."""

_MEMORY_BYTES = 1 << 20
"""What RE2 may keep of one pattern, its program and the states of it that ids have led to."""
_PREFIX_BYTES = 64
"""Bytes of a prefix that are distinguished."""


def _options() -> Any:
    """Compile quietly: the caller says what is wrong, not the library's own log on stderr.

    ``.`` is any character: else a client would evade ``.*`` with a line break in its group id.
    """
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.never_capture = True
    options.max_mem = _MEMORY_BYTES
    return options


_OPTIONS = _options()


class PatternError(ValueError):
    """A pattern is not one, or patterns cost too much."""


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern.

    :raises PatternError: it is no RE2 expression.
    """
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0].decode() if error.args else "unknown error"
        raise PatternError(f"`pattern`: {pattern!r} is not an RE2 expression: {said}") from None


class PatternIndex:
    """The patterns of a policy: those compiled by :func:`compile_pattern`, each with its number, in rising order.

    :raises PatternError: an id could meet patterns with more than :data:`MOST_INSTRUCTIONS`.
    """

    def __init__(self, patterns: Iterable[tuple[int, Any]]) -> None:
        self._by_prefix: dict[bytes, list[tuple[int, Any]]] = {}
        for number, compiled in patterns:
            self._by_prefix.setdefault(_prefix_of(compiled), []).append((number, compiled))
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})
        self._check()

    def first(self, group_id: str, below: int | None) -> int | None:
        """The lowest number, less than ``below``, of a pattern that matches the whole id; None if there is none."""
        encoded = group_id.encode()
        found = below
        for length in self._lengths:
            if length > len(encoded):
                break
            for number, compiled in self._by_prefix.get(encoded[:length], ()):
                if found is not None and number >= found:
                    break
                if compiled.fullmatch(encoded) is not None:
                    found = number
                    break
        return None if found == below else found

    def _check(self) -> None:
        """Add up what an id meets: the patterns of each prefix, and those of all prefixes that it begins with."""
        sizes = {
            prefix: sum(one.programsize for _, one in patterns)
            for prefix, patterns in self._by_prefix.items()
        }
        for prefix in sizes:
            met = sum(sizes.get(prefix[:length], 0) for length in _until(self._lengths, len(prefix)))
            if met > MOST_INSTRUCTIONS:
                begins = f"ids that begin with {prefix.decode(errors='replace')!r}" if prefix else "any id"
                raise PatternError(
                    f"patterns with {met} RE2 instructions are tried on {begins}: {MOST_INSTRUCTIONS} is the limit; "
                    "list group ids in `groups`, or begin patterns with a literal text"
                )


def _until(lengths: Sequence[int], longest: int) -> Iterable[int]:
    return (length for length in lengths if length <= longest)


def _prefix_of(compiled: Any) -> bytes:
    """The bytes that all ids begin with that the pattern matches: those that lie between two bounds of RE2."""
    try:
        least, greatest = compiled.possiblematchrange(_PREFIX_BYTES)
    except re2.error:
        return b""
    both = zip(least, greatest, strict=False)
    return bytes(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], both))
