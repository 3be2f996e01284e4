"""Writes the runs of tests/truth into docs/evidence/metrics-truth.md: ``python -m tools.recorded_tables``.

The runs are in docs/evidence/truth.json, where ``python -m tests.truth --record`` puts them, one for each seed.
"""

from collections.abc import Sequence

from tools.recorded import EVIDENCE, Entry, Recorded, title


def _run(run: Entry) -> str:
    drawn = ", a seed that the run drew" if run["drawn"] else ""
    return f"**Seed {run['seed']}**{drawn}. {title(run)}\n\n{_states(run)}\n{_planted(run)}"


def _states(run: Entry) -> str:
    """A row for each number of replicas, and what was wrong."""
    lines = [
        "| replicas | states | after a kill | groups | members | translated | past the proxies | facts | wrong |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for replicas in sorted({one["replicas"] for one in run["states"]}):
        states = [one for one in run["states"] if one["replicas"] == replicas]
        ranges = [_range(states, name) for name in ("groups", "members", "translated", "past")]
        wrong = sum(len(one["wrong"]) for one in states)
        cells = [
            replicas,
            len(states),
            sum(one["killed"] for one in states),
            *ranges,
            f"{sum(one['facts'] for one in states):,}",
            f"**{wrong}**" if wrong else wrong,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    faults = [
        f"- {one['replicas']} replicas, state {one['state']} ({'; '.join(one['changes'])}): {text}"
        for one in run["states"]
        for text in one["wrong"]
    ]
    return "\n".join([*lines, *(["", *faults] if faults else []), ""])


def _planted(run: Entry) -> str:
    lines = ["| planted | found in |", "| --- | --- |"]
    for what, where in run["planted"].items():
        found = "**nowhere**" if where is None else f"state {where['state']} of {where['replicas']} replicas"
        lines.append(f"| {what} | {found.replace('of 1 replicas', 'of 1 replica')} |")
    return "\n".join([*lines, ""])


def _range(states: Sequence[Entry], name: str) -> str:
    values = [one[name] for one in states if name in one]
    return f"{min(values)} to {max(values)}" if values else ""


def _seed(run: Entry) -> int:
    return int(run["seed"])


RUNS = Recorded(
    EVIDENCE / "truth.json",
    EVIDENCE / "metrics-truth.md",
    "truth",
    _seed,
    lambda runs: "\n".join(map(_run, runs)),
)
