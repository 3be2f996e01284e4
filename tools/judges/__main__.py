"""Runs the suites: ``python -m tools.judges [SUITE...] [--tests 0102,0113] [--runs 5]``.

Exits with 1 if a test passes less often through Epochgate than straight and the allow list does not name it.
"""

import argparse
import datetime as dt
import sys

from rich.console import Console
from rich.table import Table

from benchmarks.lib.test_bed import kafka_version
from tools.judges import allowed, report
from tools.judges.comparison import Row, Verdict, compare, unneeded
from tools.judges.go import FRANZ_GO, KAFKA_GO, SARAMA
from tools.judges.kafka_own import KafkaOwn
from tools.judges.kafka_python import KAFKA_PYTHON, OLD_KAFKA_PYTHON
from tools.judges.librdkafka import Librdkafka
from tools.judges.node_rdkafka import NodeRdkafka
from tools.judges.running import run
from tools.judges.suite import Suite, UnavailableError

SUITES: tuple[Suite, ...] = (
    Librdkafka(),
    NodeRdkafka(),
    FRANZ_GO,
    SARAMA,
    KAFKA_GO,
    KAFKA_PYTHON,
    OLD_KAFKA_PYTHON,
    KafkaOwn(),
)


def main(argv: list[str]) -> int:
    """Run what the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.judges", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(one.name for one in SUITES))
    parser.add_argument("--tests", default="", help="only tests whose names contain one of these, by commas")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=4, help="so many processes of a suite at once")
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"only what passed within {report.SHORT_S:.0f} s in all stored runs",
    )
    parser.add_argument(
        "--store", action="store_true", help=f"put the results into docs/{report.STORED.name}"
    )
    options = parser.parse_args(argv)
    if unknown := set(options.suites) - {one.name for one in SUITES}:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    listed = allowed.read(allowed.FILE.read_text())
    rows: list[Row] = []
    unavailable = False
    for suite in SUITES:
        if options.suites and suite.name not in options.suites:
            continue
        jobs = [job for job in suite.jobs() if any(one in job for one in options.tests.split(","))]
        if options.short:
            jobs = report.short(jobs, report.stored(), suite.name)
        if not jobs:
            continue
        try:
            suite.prepare()
        except UnavailableError as reason:
            print(f"error: {suite.name}: {reason}", file=sys.stderr)
            unavailable = True  # the others run nevertheless
            continue
        commit = report.commit()
        attempts = run(suite, jobs, options.runs, options.at_once)
        rows += compare(attempts, listed)
        if options.store:
            now = dt.datetime.now(dt.UTC)
            newest = report.SuiteReport(
                suite=suite.name,
                version=suite.version,
                kafka=suite.own_brokers or kafka_version(),
                commit=commit,
                date=f"{now:%Y-%m-%d}",
                attempts=tuple(attempts),
            )
            report.write(report.merged(report.stored(), newest))
    Console(width=160).print(_table(rows))
    for one in unneeded(rows, listed):
        print(f"the allow list need not name {one.suite} {one.test}")
    return 1 if unavailable or any(row.verdict is Verdict.DIFFERS for row in rows) else 0


def _table(rows: list[Row]) -> Table:
    shown = Table(
        "suite", "test", "straight", "through", "own new protocol", "verdict", "failures through Epochgate"
    )
    for row in rows:
        counts = (str(one) for one in (row.straight, row.through, row.native))
        shown.add_row(row.suite, row.test, *counts, row.verdict, "\n".join(row.reasons))
    return shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
