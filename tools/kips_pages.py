"""Writes the pages of the source documents, item by item, from docs/reference/kips/*.json.

Each file has the items of one document, one a line: its id, the chapter, the kind (rule, field, error, setting, metric,
tool, acl, record, test, state), the item in one sentence, how it stands here, where or why, and the tests that would
fail if it were not so.
"""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from tools.markers import replaced

PAGES = Path(__file__).parent.parent / "docs" / "reference"
FOLDER = PAGES / "kips"
TITLES = {
    "848": "KIP-848, the consumer rebalance protocol",
    "848-later": "KIP-848, its later revision",
    "429": "KIP-429, incremental cooperative rebalancing",
    "932": "KIP-932, share groups: the revision",
    "connect": "KIP-848 for Connect: the revision",
}
HERE = "here"
STATES = (HERE, "partly", "not built", "n.a.")
_HEAD = "| | item | state | where, or why not | test |\n| --- | --- | --- | --- | --- |\n"


@dataclass(frozen=True)
class Item:
    """One checkable statement of a document, and how it stands here.

    :ivar tests: node ids below tests/, or names of scenarios that Kafka and the embedded coordinator play.
    """

    id: str
    chapter: str
    kind: str
    item: str
    state: str
    why: str
    tests: tuple[str, ...]

    def collected(self) -> list[str]:
        """Return the ids of the tests as pytest has them."""
        return [
            f"tests/{name}"
            if "::" in name
            else f"tests/coordinator/test_against_kafka.py::test_kafka_did_the_same[{name}]"
            for name in self.tests
        ]


@cache
def items(document: str) -> tuple[Item, ...]:
    """Return the items of a document, in its order.

    :raises OSError, ValueError, TypeError: the file is not there, is no JSON, or has other fields.
    """
    rows = json.loads((FOLDER / f"{document}.json").read_text(encoding="utf-8"))
    return tuple(Item(**{**row, "tests": tuple(row["tests"])}) for row in rows)


def page(document: str) -> str:
    """Return the page of a document: a table for each of its chapters."""
    parts = [f"# {TITLES[document]}\n\nWhat the columns mean: [The KIPs, item by item](../kips.md).\n"]
    for chapter, rows in groupby(items(document), attrgetter("chapter")):
        heading = chapter.strip("[]").removeprefix("title left out; ")
        parts.append(f"\n## {heading}\n\n{_HEAD}")
        parts += map(_row, rows)
    return "".join(parts)


def _row(item: Item) -> str:
    tests = ", ".join(f"`{one}`" for one in item.tests)
    cells = (item.id, item.item, item.state, item.why.replace("](../", "](../../"), tests)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def counts() -> str:
    """Return a table with a row for each document: how many items stand how."""
    lines = [
        f"| document | items | {' | '.join(STATES)} |\n| --- |{' --- |' * (len(STATES) + 1)}\n",
    ]
    for document, title in TITLES.items():
        by_state = Counter(item.state for item in items(document))
        numbers = " | ".join(str(by_state[state]) for state in STATES)
        lines.append(f"| [{title}](kips/{document}.md) | {by_state.total()} | {numbers} |\n")
    return "".join(lines)


def index() -> str:
    """Return the page that leads to the others, with its counts."""
    return replaced((PAGES / "kips.md").read_text(encoding="utf-8"), "counts", counts())


WRITTEN = {
    "reference/kips.md": index,
    **{f"reference/kips/{document}.md": partial(page, document) for document in TITLES},
}
