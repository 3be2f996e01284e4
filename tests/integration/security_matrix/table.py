"""The matrix as docs/evidence/security-matrix.md shows it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from support import ROOT

from .callers import Caller
from .differences import difference
from .matrix import Cell, Way

PAGE = ROOT / "docs" / "evidence" / "security-matrix.md"
BEGIN = (
    "<!-- The security matrix begins; `python -m tests.integration.security_matrix --write` writes it. -->"
)
END = "<!-- The security matrix ends. -->"

Rows = dict[str, dict[Caller, str]]


def chapter(matrices: Mapping[str, Sequence[Cell]]) -> str:
    """What stands between the markers: the table of the first version, where the others differ, and the notes.

    Of clients with certificates it is where they differ from clients with SASL at the same version.
    """
    notes: list[str] = []
    first: Rows = {}
    parts: list[str] = []
    for version, cells in matrices.items():
        rows = {way: rows_of((one for one in cells if one.way == way), version, notes) for way in Way}
        sasl, certificates = rows[Way.SASL], rows[Way.CERTIFICATES]
        if not first:
            first = sasl
            parts += [f"Kafka {version}:", *_table(first)]
        else:
            parts += ["", *_others(f"Kafka {version}", sasl, first)]
        if certificates:
            parts += ["", *_others(f"Kafka {version}, clients with certificates", certificates, sasl)]
    parts += ["", "Where the proxy differs (Kafka's outcome first), and why:", ""]
    parts += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(parts) + "\n"


def rows_of(cells: Iterable[Cell], version: str, notes: list[str]) -> Rows:
    """The text of each cell; reasons that are new are added to `notes`."""
    rows: Rows = {}
    for cell in cells:
        rows.setdefault(f"{cell.call.api} {cell.call.title}", {})[cell.caller] = _text(cell, version, notes)
    return rows


def page_with(text: str, page: str) -> str:
    """The page with this text between the markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def written(page: Path = PAGE) -> str:
    """What stands between the markers now."""
    return page.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip() + "\n"


def _text(cell: Cell, version: str, notes: list[str]) -> str:
    if cell.equal:
        return str(cell.straight)
    known = difference(cell, version)
    if known is None:
        return f"**{cell.straight} → {cell.through}**"
    if known.why not in notes:
        notes.append(known.why)
    return f"{known} ({notes.index(known.why) + 1})"


def _table(rows: Rows) -> list[str]:
    """In Markdown; a caller to whom the same happens in every row is told of in a line before it."""
    callers = list(next(iter(rows.values())))
    outcomes = {caller: {row[caller] for row in rows.values()} for caller in callers}
    same = [caller for caller in callers if len(outcomes[caller]) == 1]
    shown = [caller for caller in callers if caller not in same]
    lines = [f"- {caller.title}: {next(iter(outcomes[caller]))}, whatever the call" for caller in same]
    return [
        "",
        *lines,
        *([""] if lines else []),
        _line(["call", *(caller.title for caller in shown)]),
        _line(["---"] * (len(shown) + 1)),
        *(_line([title, *(row[caller] for caller in shown)]) for title, row in rows.items()),
    ]


def _others(what: str, here: Rows, there: Rows) -> list[str]:
    other: dict[tuple[str, str], list[str]] = {}
    for title, row in here.items():
        for caller, text in row.items():
            if without_race(there[title][caller]) != without_race(text):
                other.setdefault((title, text), []).append(caller.title)
    if not other:
        return [f"{what}: the same in every cell."]
    return [
        f"{what}: the same but for",
        "",
        _line(["call", "callers", what]),
        _line(["---"] * 3),
        *(_line([title, "; ".join(callers), text]) for (title, text), callers in other.items()),
    ]


def without_race(line: str) -> str:
    """A row as it is if Kafka has answered the caller before the member's own JoinGroup took the place of its call.

    Straight at Kafka that is a race: the member hears of the rebalance at its next heartbeat (reason 4).
    """
    return re.sub(r"no answer; a rebalance → NONE; a rebalance \(\d+\)", "NONE; a rebalance", line)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
