"""What the commands print of a summary, as lines and as JSON; Spark is not started."""

import contextlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.audit import job as audit_job
from pipeline.commands import audit, progress, readiness
from pipeline.journal import events, unfinished
from pipeline.progress import job as progress_job
from pipeline.readiness import cluster, records
from pipeline.readiness import job as readiness_job
from proxy.cli import command_line
from proxy.runtime.exit_codes import ExitCode

AUDIT = audit_job.Summary(
    events=7,
    duplicates=1,
    lost=2,
    groups=3,
    overlaps={"violation": 1, "clock": 4},
    gaps=5,
    longest_gap_us=1500,
    skew_us=100_000,
    clocks={("a", "b"): 200_000},
    quarantined={"not JSON": 1},
    unfinished={"_a.1.2.jsonl": 2, "_a.2.1.jsonl": None},
    unread={"_b.1.2.jsonl": 4},
)
PROGRESS = progress_job.Summary(
    groups=3, other_groups={"share": 1, "connect": 2}, pauses=4, stuck=1, late=2, unfinished={}, unread={}
)
READINESS = readiness_job.Summary(
    groups=3,
    verdicts={"ready": 2, "not ready": 1},
    other_protocols={"share": 1},
    waves=1,
    policies=[Path("out/wave-01.yaml")],
    quarantined={},
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command of the pipeline on a folder, with the summaries above in place of Spark's work."""
    for command in (audit, progress, readiness):
        monkeypatch.setattr(command, "session", lambda *_: contextlib.nullcontext())
    for module, summary in (
        (audit_job, AUDIT),
        (progress_job, PROGRESS),
        (readiness_job, READINESS),
    ):
        monkeypatch.setattr(module, "run", lambda *_, summary=summary, **__: summary)
    monkeypatch.setattr(events, "from_files", lambda *_: None)
    monkeypatch.setattr(unfinished, "find", lambda *_: [])
    monkeypatch.setattr(progress_job, "lines_of_files", lambda *_: None)
    monkeypatch.setattr(records, "captured", lambda *_: None)

    def invoke(*arguments: str):
        return CliRunner().invoke(command_line(), ["pipeline", *arguments, "--out", str(tmp_path)])

    return invoke


def test_audit(run):
    text, report = run("audit", "--journal", "."), run("audit", "--journal", ".", "-o", "json")
    assert text.exit_code == report.exit_code == ExitCode.PROBLEM_FOUND
    assert "owned twice: 1\n" in text.output
    assert "_a.1.2.jsonl: nobody finished it, counted as lost: 2 events\n" in text.output
    assert "_a.2.1.jsonl: nobody finished it, counted as lost: no event can be read\n" in text.output
    assert "_b.1.2.jsonl: being written, not read: 4 events\n" in text.output
    assert json.loads(report.output) == {
        "events": 7,
        "duplicates": 1,
        "lost": 2,
        "groups": 3,
        "overlaps": {"violation": 1, "clock": 4},
        "gaps": 5,
        "longest_gap_us": 1500,
        "skew_us": 100_000,
        "clocks": [{"ahead": "a", "behind": "b", "at_least_us": 200_000}],
        "quarantined": {"not JSON": 1},
        "unfinished": {"_a.1.2.jsonl": 2, "_a.2.1.jsonl": None},
        "unread": {"_b.1.2.jsonl": 4},
        "violations": 1,
    }


def test_an_audit_without_violations_is_a_success(run, monkeypatch):
    monkeypatch.setattr(audit_job, "run", lambda *_, **__: AUDIT._replace(overlaps={"clock": 4}))
    done = run("audit", "--journal", ".", "-o", "json")
    assert (done.exit_code, json.loads(done.output)["violations"]) == (ExitCode.SUCCESS, 0)


def test_progress(run):
    assert run("progress", "--journal", ".").output.startswith(
        "3 groups, 4 pauses, 1 members stuck\n3 groups of other protocols: 2 connect, 1 share\n"
    )
    report = run("progress", "--journal", ".", "-o", "json")
    assert (report.exit_code, json.loads(report.output)) == (ExitCode.SUCCESS, PROGRESS._asdict())


def test_readiness(run, tmp_path):
    capture = tmp_path / "capture"
    (capture / records.CAPTURED.name).mkdir(parents=True)
    cluster.Cluster().save(capture)
    assert run("readiness", "--capture", str(capture)).output.startswith(
        "3 groups\n  not ready: 1\n  ready: 2\n1 of those not ready have nothing to move to: 1 share\n"
    )
    report = run("readiness", "--capture", str(capture), "-o", "json")
    assert report.exit_code == ExitCode.SUCCESS
    assert json.loads(report.output) == READINESS._asdict() | {"policies": ["out/wave-01.yaml"]}
