"""Writes what the hot paths cost, and whose calls they make, into docs/evidence/performance.md.

``python -m benchmarks.counts --record`` makes the run in docs/evidence/counts.json; ``python -m tools.recorded_tables``
writes the page.
"""

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, one_by_one

_PATHS = {
    "request": "100-byte request",
    "passed_heartbeat": "passed Heartbeat",
    "translated_heartbeat": "translated Heartbeat",
    "produce": "a MiB produced",
    "fetch": "a MiB fetched",
}
_COUNTS = {
    "calls": "calls",
    "before_writes": "of them before bytes leave",
    "allocations": "allocations",
    "system_calls": "system calls, without waits",
    "wake_ups": "wake-ups",
}


def table(run: Entry) -> str:
    """Return a row for each count, and one for each folder with the calls that its code makes."""
    paths = [run["paths"][path] for path in _PATHS]
    rooms = sorted({room for path in paths for room in path["rooms"]})
    head = ("", *_PATHS.values())
    return (
        markdown(head, [(words, *(str(path[name]) for path in paths)) for name, words in _COUNTS.items()])
        + "\nWhose code makes the calls: those before bytes leave, of all.\n\n"
        + markdown(
            head, [(f"`{room}/`", *(_cell(path["rooms"].get(room)) for path in paths)) for room in rooms]
        )
    )


def _cell(calls: list[int] | None) -> str:
    return "" if calls is None else f"{calls[0]} of {calls[1]}"


def _title(run: Entry) -> str:
    return f"Python {run['python']}, commit `{run['commit']}`, {run['date']} (`{run['command']}`):"


RUNS = Recorded(
    EVIDENCE / "counts.json",
    EVIDENCE / "performance.md",
    "counts",
    lambda run: run["python"],
    one_by_one(_title, table),
)
