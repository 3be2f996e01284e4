"""Writes the tables of what benchmarks recorded into their pages: ``python -m tools.recorded_tables``."""

import sys

from tools import (
    attacks_table,
    commits_table,
    compiled_table,
    coordinator_random_table,
    counts_table,
    identity_table,
    live_move_table,
    outage_table,
    peers_table,
    start_together_table,
    tls_table,
    truth_table,
)

TABLES = (
    attacks_table.OUTCOMES,
    commits_table.RUNS,
    compiled_table.RUNS,
    coordinator_random_table.RUNS,
    counts_table.RUNS,
    identity_table.RUNS,
    live_move_table.RUNS,
    outage_table.OUTAGES,
    peers_table.RUNS,
    start_together_table.RUNS,
    tls_table.RUNS,
    truth_table.RUNS,
)


def main() -> int:
    """Write the pages."""
    for table in TABLES:
        before = table.page.read_text(encoding="utf-8")
        table.page.write_text(table.written(before, table.read()), encoding="utf-8")
        print(table.page.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
