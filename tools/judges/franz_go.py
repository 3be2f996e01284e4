"""franz-go's tests of consumer groups and transactions, from its module; some of them speak the new protocol."""

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.chart.binaries import NoGoError, find_go
from tools.judges.source import BUILD, Archive, Registry
from tools.judges.suite import Outcome, Result, UnavailableError

ARCHIVE = Archive(
    Registry.GO,
    "github.com/twmb/franz-go",
    "1.22.3",
    "dba2c9bf27fbbcc47039630d6027c964e18ce36f73b67fd0301174d775fcfde0",
)
TESTS = ("TestGroupSimple", "TestIssue648", "TestIssue865", "TestGroupETL", "TestTxnEtl")
RECORDS = 50_000
"""A tenth of what the tests produce by default."""
TIMEOUT_S = 600
_END = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+)s\)$", re.MULTILINE)
_OUTCOMES = {"PASS": Outcome.PASSED, "FAIL": Outcome.FAILED, "SKIP": Outcome.SKIPPED}


class FranzGo:
    """Its tests, each in a process."""

    name = "franz-go"
    version = f"{ARCHIVE.package} {ARCHIVE.version}"
    broker: Mapping[str, str] = {}
    has_consumer_protocol = False
    """Its tests choose the protocol themselves: those with 848 in their names have the new one by both entries."""

    def prepare(self) -> None:
        """Fetch it, and build its tests."""
        if _program().exists():
            return
        try:
            go = find_go()
        except NoGoError as error:
            raise UnavailableError(str(error)) from error
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
        build = [str(go), "test", "-c", "-o", str(_program()), "./pkg/kgo"]
        done = subprocess.run(
            build, cwd=_source(), env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise UnavailableError(f"go test -c failed: {done.stderr.strip()[-500:]}")

    def jobs(self) -> tuple[str, ...]:
        """Return the tests."""
        return TESTS

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run one test with its subtests; it chooses the protocol."""
        command = [str(_program()), "-test.v", f"-test.run=^{job}$", f"-test.timeout={TIMEOUT_S}s"]
        environment = {
            **os.environ,
            "KGO_SEEDS": bootstrap,
            "KGO_TEST_RECORDS": str(RECORDS),
            "KGO_TEST_RF": "1",
        }
        with (folder / "output.txt").open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                check=False,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT_S + 10,
            )
        return results(job, (folder / "output.txt").read_text(errors="replace"))


def results(job: str, said: str) -> list[Result]:
    """Return what became of a test and its subtests, by what ``go test -v`` printed.

    A test that has subtests is not listed itself.
    """
    ended = [(name, _OUTCOMES[word], float(seconds)) for word, name, seconds in _END.findall(said)]
    if not ended:
        return [Result(job, Outcome.FAILED, 0.0, "it did not end")]
    errors = re.findall(r"^\s+\w+_test\.go:\d+: .*$", said, re.MULTILINE)
    reason = errors[0].strip()[:200] if errors else ""
    return [
        Result(name, outcome, seconds, reason if outcome is Outcome.FAILED else "")
        for name, outcome, seconds in ended
        if not any(other.startswith(f"{name}/") for other, _, _ in ended)
    ]


def _program() -> Path:
    return BUILD / f"kgo-{ARCHIVE.version}.test"


def _source() -> Path:
    return ARCHIVE.unpacked("franz-go", f"{ARCHIVE.package}@v{ARCHIVE.version}")
