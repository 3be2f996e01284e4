"""Writes what attacks came to, before and after their mends, into docs/explanation/security.md.

The outcomes are in docs/evidence/attacks.json, where ``python -m benchmarks.attacks --record`` puts each as it ends;
``python -m tools.recorded_tables`` writes the page.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.recorded import DOCS, EVIDENCE, Entry, Recorded, markdown

BEFORE, AFTER = "before", "after"
_HEAD = ["attack", "before the mends", "this code"]


def table(outcomes: Sequence[Entry]) -> str:
    """Return a row for each attack, with what it came to on both versions of the code."""
    by_name: dict[str, dict[str, Entry]] = {}
    for one in outcomes:
        by_name.setdefault(one["attack"], {})[one["code"]] = one
    rows = [
        [attack, *(_says(of[code]) if code in of else "not run" for code in (BEFORE, AFTER))]
        for attack, of in by_name.items()
    ]
    return markdown(_HEAD, rows)


def _runs(outcomes: Sequence[Entry]) -> str:
    runs = sorted({(one["code"] != BEFORE, one["commit"], one["date"], one["kafka"]) for one in outcomes})
    each = (
        f"{'this code' if is_after else 'before the mends'}: `{commit}`, {date}, Kafka {kafka}"
        for is_after, commit, date, kafka in runs
    )
    return f"{'; '.join(each)}."


def _says(outcome: Entry) -> str:
    """Say what an attack came to: ends of processes, readiness, rejoins, and what the timed member was answered."""
    if "unknown key" in outcome["failed"]:
        return "this code knows no such setting"
    if outcome["failed"] and outcome["ends"]:
        return f"**{outcome['ends'][0]}**"
    if outcome["failed"]:
        return f"not made: {outcome['failed'].splitlines()[0][:80]}"
    timed, healed, seen = outcome["timed"], outcome["healed_s"], dict(outcome["seen"])
    if "move after" in seen:
        seen["move"] = f"{_first(seen.pop('move before'))}, then {_first(seen.pop('move after'))}"
    parts = [
        f"**{len(outcome['ends'])} ends of processes**" if outcome["ends"] else "",
        f"not ready for {outcome['not_ready_s']:.0f} s" if outcome["not_ready_s"] >= 1 else "",
        "**not healed after 45 s**" if healed is None else f"healed after {healed:.0f} s" if healed >= 1 else "",
        _counted(outcome["rejoins"] - outcome["rejoins_straight"], "rejoin"),
        f"a Heartbeat refused for {timed['refused for, s']:.0f} s" if timed["refused for, s"] >= 1 else "",
        f"a call waits {timed['longest wait, ms'] / 1000:.1f} s" if timed["longest wait, ms"] >= 500 else "",
        _counted(timed["not answered"], "call", " not answered"),
        *(_SEEN[what](value) if what in _SEEN else f"{what}: {_text(value)}" for what, value in seen.items()),
    ]  # fmt: skip
    return "; ".join(filter(None, parts)) or "not noticed"


def _counted(count: int, what: str, after: str = "") -> str:
    return f"**{count} {what}{'s' if count > 1 else ''}{after}**" if count > 0 else ""


def _text(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


def _first(text: str) -> str:
    return text.split("; ", maxsplit=1)[0]


def _unsaid(_value: object) -> str:
    return ""


_SEEN: Mapping[str, Callable[[Any], str]] = {
    "move": lambda move: f"the move: {_first(move)}",
    "noticed": lambda was_noticed: "shown" if was_noticed else "**not shown**",
    "of the new protocol": _unsaid,
    "said meanwhile": _unsaid,
    "records written": _unsaid,
    "written in s": _unsaid,
    "new ids": _unsaid,
}
"""How what an attack has seen is said, where that is not name and value."""


def _key(outcome: Entry) -> tuple[str, int, str, bool]:
    return (outcome["of"], outcome["number"], outcome["attack"], outcome["code"] != BEFORE)


OUTCOMES = Recorded(
    EVIDENCE / "attacks.json",
    DOCS / "explanation" / "security.md",
    "attacks",
    _key,
    lambda outcomes: f"{_runs(outcomes)}\n\n{table(outcomes)}",
)
