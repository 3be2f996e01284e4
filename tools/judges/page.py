"""Writes docs/evidence/judges.md from the stored results and the allow list (``make docs``)."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tools.judges import allowed, report
from tools.judges.allowed import Allowed
from tools.judges.comparison import Row, Verdict, compare
from tools.judges.report import SuiteReport

_HEAD = """\
# Client libraries' own tests

The group tests of client libraries, which nobody of this project wrote, run straight at a real Kafka and through
Epochgate, which translates all groups. Each suite is fetched from its registry by pinned version and hash. The broker
is a single one with Kafka's defaults for groups. Only Kafka's own tests start brokers themselves, each test a cluster,
in front of which a JUnit extension of ours starts a proxy.

`make judges` runs all suites once (`make judges ARGS="librdkafka --tests 0102,0113 --runs 5"`), prints this comparison,
and exits with 1 if a test passes less often through Epochgate than straight and the allow list does not name it. With
`--store` the results become those of this page, `docs/evidence/judges.json`. `--short` runs only what passed quickly in
all stored runs; CI does, and the nightly workflow runs everything.

"""
_MEANING = """
- **same**: through Epochgate as often as straight, or more often.
- **allowed**: less often; [the allow list](#the-allow-list) says why that is no fault of Epochgate.
- **differs**: less often, and not explained.
- **not compared**: never passes straight, or was skipped.
"""
_DIFFERENCES = """
## Tests that do not pass as often

The third count is the same test with the library's own client of the new protocol, straight at Kafka. A suite may skip
a test there, or expect something else of it.

"""
_ALLOWED = f"""
## The allow list

`tools/judges/allowed.yaml`, at most {allowed.MAX_ENTRIES} entries. An entry needs evidence: the library's own client of
the new protocol differs in the same way, straight at Kafka, or the test asserts a leader or an assignor's exact choice,
which no broker of the new protocol keeps.

"""
_WITHOUT = """
## Suites that are not run

- **confluent-kafka (Python)**: its sdists hold no tests with a broker (1.9.2, 2.0.2, 2.3.0, 2.8.0, 2.16.1).
- **aiokafka**: its sdists hold no tests (0.7.2, 0.8.0; its `MANIFEST.in` excludes `tests`).
- A suite that `make judges` knows and the table above does not show has no recorded run yet.

In other suites, tests that need several brokers, TLS, SASL, or Kafka's scripts are left out. sarama's set-up expects
five brokers behind toxiproxy, and kafka-go's a broker at port 9092: the addresses there are replaced, and sarama's
replication factor of 3 is 1. kafka-python's sdists lack two modules of their tests, for which empty ones stand in: the
broker runs already. Each of node-rdkafka's tests runs in a process of its own, as mocha ends a file at the first test
after which the cleaning up fails, which a consumer's disconnect() now and then does straight too.

## kafka-python before 2.2.9 reads committed records again

A consumer that has rejoined fetches its committed offsets within the timeout of `poll()`. If there is no answer in
time, which can be as its connection is just busy with metadata, kafka-python before 2.2.9 takes `auto_offset_reset` in
their place. With `earliest` it reads everything again, straight at a broker and through Epochgate, with each assignor;
how much depends on how fast the machine is. Its 2.2.9 has "Do not reset fetch positions if offset commit fetch times
out (#2629)" and does not.
"""


def page() -> str:
    """Return the page of the repository's results."""
    return written(report.stored(), allowed.read(allowed.FILE.read_text()))


def written(reports: Sequence[SuiteReport], listed: Sequence[Allowed]) -> str:
    """Return the page of these results and this allow list."""
    reports = [_joined(parts) for parts in _by_suite(reports).values()]
    rows = [compare(one.attempts, listed) for one in reports]
    return "".join(
        (
            _HEAD,
            _table(
                ("suite", "source", "Kafka", "commit", "date", *Verdict),
                [_summary(one, of_report) for one, of_report in zip(reports, rows, strict=True)],
            ),
            _MEANING,
            _DIFFERENCES,
            _table(
                (
                    "suite",
                    "test",
                    "straight",
                    "through",
                    "own new protocol",
                    "verdict",
                    "failures through Epochgate",
                ),
                [_difference(row) for of_report in rows for row in of_report if not _is_same(row)],
            ),
            _ALLOWED,
            _table(
                ("suite", "test", "reason", "evidence"),
                [(one.suite, f"`{one.test}`", _cell(one.reason), _cell(one.evidence)) for one in listed],
            ),
            _WITHOUT,
        )
    )


def summary(reports: Sequence[SuiteReport] | None = None) -> str:
    """Return the line of the compatibility page: how many tests were compared, and how many differ."""
    listed = allowed.read(allowed.FILE.read_text())
    rows = [row for one in reports or report.stored() for row in compare(one.attempts, listed)]
    verdicts = Counter(row.verdict for row in rows)
    compared = len(rows) - verdicts[Verdict.NOT_COMPARED]
    return (
        f"[Client libraries' own tests](../evidence/judges.md): {verdicts[Verdict.SAME]} of {compared} group tests"
        f" pass as often through Epochgate as straight at Kafka; {verdicts[Verdict.ALLOWED]} differ for a reason that"
        f" is documented there, {verdicts[Verdict.DIFFERS]} without one.\n"
    )


def _by_suite(reports: Sequence[SuiteReport]) -> dict[str, list[SuiteReport]]:
    found: dict[str, list[SuiteReport]] = {}
    for one in reports:
        found.setdefault(one.suite, []).append(one)
    return found


def _joined(parts: Sequence[SuiteReport]) -> SuiteReport:
    """Return the parts of a suite that ran at different commits as one report that names them all."""
    return msgspec.structs.replace(
        parts[-1],
        commit=", ".join(dict.fromkeys(one.commit for one in parts)),
        date=max(one.date for one in parts),
        attempts=tuple(attempt for one in parts for attempt in one.attempts),
    )


def _summary(of: SuiteReport, rows: Sequence[Row]) -> tuple[str, ...]:
    verdicts = Counter(row.verdict for row in rows)
    return (of.suite, of.version, of.kafka, of.commit, of.date, *(str(verdicts[one]) for one in Verdict))


def _difference(row: Row) -> tuple[str, ...]:
    counts = (str(one) for one in (row.straight, row.through, row.native))
    return (row.suite, f"`{row.test}`", *counts, row.verdict, _cell("; ".join(row.reasons)))


def _is_same(row: Row) -> bool:
    """Whether there is nothing to show: it passes as often, or was skipped by both."""
    return row.verdict is Verdict.SAME or not (row.straight.ran or row.through.ran)


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))
