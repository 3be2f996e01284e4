"""kafka-python's tests with a broker that touch groups, from its sdist; the client is that of the sdist too."""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

from benchmarks.lib.test_bed import kafka_version
from tools.judges.source import Archive, Registry
from tools.judges.suite import Outcome, Result, one_line, output

ARCHIVE = Archive(
    Registry.PYPI,
    "kafka-python",
    "2.3.0",
    "de65b596d26b5c894f227c35c7d29a65cea8f8a1c4f0f2b4e3e2ea60d503acc8",
)
"""Its tests take a broker that runs already; those of 3.0.12 start their own."""
TESTS = {
    "test_consumer_group": ("",),
    "test_consumer_integration": ("",),
    "test_admin_integration": ("group",),
    "test_producer_integration": ("transactional",),
}
"""Files, and a part of the names of those tests in them that touch groups."""
TIMEOUT_S = 600


class KafkaPython:
    """Its tests, a process for each file."""

    name = "kafka-python"
    version = f"{ARCHIVE.package} {ARCHIVE.version}"
    broker: Mapping[str, str] = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    topics = ()
    has_consumer_protocol = False
    is_alone = False

    def prepare(self) -> None:
        """Fetch it; it is pure Python."""
        (
            _source() / "test" / "__init__.py"
        ).touch()  # the sdist leaves it out, and Python has a package test too

    def jobs(self) -> tuple[str, ...]:
        """Return the files."""
        return tuple(TESTS)

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run the tests of one file."""
        report = folder / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
        ]
        file = _source() / "test" / "integration" / f"{job}.py"
        only = " or ".join(TESTS[job])
        printed = output(
            [*command, f"--rootdir={_source()}", f"--junitxml={report}", "-k", only, file],
            folder,
            TIMEOUT_S,
            PYTHONPATH=str(_source()),
            KAFKA_URI=f"kafka://{bootstrap}",
            KAFKA_VERSION=kafka_version(),
        )
        return results(job, report.read_text() if report.exists() else "", printed)


def results(job: str, report: str, printed: str) -> list[Result]:
    """Return what became of the tests of a file, by pytest's report."""
    if not report:
        last = printed.strip().splitlines()[-1:] or ["no output"]
        return [Result(job, Outcome.FAILED, 0.0, f"no report: {one_line(last[0])}")]
    return [_result(job, case) for case in ET.fromstring(report).iter("testcase")]  # noqa: S314  it is of pytest


def _result(job: str, case: ET.Element) -> Result:
    outcome, reason = Outcome.PASSED, ""
    for child in case:
        if child.tag in {"failure", "error"}:
            outcome, reason = Outcome.FAILED, one_line(child.get("message") or "")
        elif child.tag == "skipped":
            outcome = Outcome.SKIPPED
    return Result(f"{job}/{case.get('name')}", outcome, float(case.get("time") or 0), reason)


def _source() -> Path:
    return ARCHIVE.unpacked("kafka-python", f"kafka_python-{ARCHIVE.version}")
