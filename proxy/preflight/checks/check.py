"""What a check is, and what several of them need."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.facts import Facts

Found = Iterator[Finding]


class Check(NamedTuple):
    """A check: its name, what it looks for in a sentence, from where it needs facts, and the function that looks.

    The function looks at what is there; what a source did not tell is reported once for all checks
    (:mod:`proxy.preflight.gaps`).
    """

    name: str
    meaning: str
    sources: frozenset[Source]
    look: Callable[[Facts], Found]


def nodes(ids: Iterable[int | str]) -> str:
    """Return ``broker 1`` or ``brokers 1, 2``; an id may be an address too."""
    listed = sorted(ids)
    return f"{'broker' if len(listed) == 1 else 'brokers'} {', '.join(map(str, listed))}"


def count(number: int, what: str) -> str:
    """Return ``1 member`` or ``2 members``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def quoted(listed: Iterable[str], most: int = 5) -> str:
    """Return the names in order, ``and 3 more`` after the first few."""
    every = sorted(listed)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
