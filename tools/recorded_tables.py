"""Writes the tables of what benchmarks recorded into their pages: ``python -m tools.recorded_tables``.

Each module of TABLES says where its runs are, where its table is, and how it is made. A benchmark's ``--record`` puts a
run there.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tools import (
    attacks_table,
    commits_table,
    live_move_table,
    outage_table,
    start_together_table,
    truth_table,
)


class Table(Protocol):
    """A module that makes a table of recorded runs."""

    PAGE: Path
    MARKER: str

    def read(self) -> list[Mapping[str, Any]]:
        """Return the runs, in the order of the page."""

    def page(self, before: str, runs: Sequence[Mapping[str, Any]], /) -> str:
        """Return the page with the tables of these runs."""


TABLES: Sequence[Table] = (
    attacks_table,
    commits_table,
    live_move_table,
    outage_table,
    start_together_table,
    truth_table,
)


def main() -> int:
    """Write the pages."""
    for table in TABLES:
        table.PAGE.write_text(
            table.page(table.PAGE.read_text(encoding="utf-8"), table.read()), encoding="utf-8"
        )
        print(table.PAGE.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
