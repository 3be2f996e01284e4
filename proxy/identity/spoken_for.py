"""For which principals the proxy speaks (``identity.allow``, ``identity.deny``), whatever its account may do at the
brokers.
"""

from collections.abc import Sequence
from typing import Any

import re2

_PATTERN_MEMORY = 1024 * 1024
MOST_PATTERNS = 1_000


class BadPattern(Exception):
    """A pattern can't be used; the message says which and why."""


class SpokenFor:
    """Patterns (RE2) of whole names. ``deny`` counts more than ``allow``.

    :raises BadPattern: one is no regular expression, or costs too much.
    """

    def __init__(self, allow: Sequence[str], deny: Sequence[str]) -> None:
        self._allow = patterns(allow)
        self._deny = patterns(deny)

    def includes(self, name: str) -> bool:
        """Whether the proxy may speak for ``User:name``."""
        return any(one.fullmatch(name) for one in self._allow) and not any(
            one.fullmatch(name) for one in self._deny
        )


def patterns(texts: Sequence[str]) -> list[Any]:
    """Compile patterns.

    :raises BadPattern: see there.
    """
    if len(texts) > MOST_PATTERNS:
        raise BadPattern(f"there are more than {MOST_PATTERNS} patterns")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    found = []
    for text in texts:
        try:
            found.append(re2.compile(text, options))
        except re2.error as error:
            said = error.args[0] if error.args else ""
            said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
            raise BadPattern(f"{text[:60]!r} is no regular expression: {said}") from None
    return found
