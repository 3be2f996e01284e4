"""kafka-python's tests with a broker that touch groups, from its sdist; the client is that of the sdist too."""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lib.test_bed import kafka_version
from tools.judges.source import Archive, Registry
from tools.judges.suite import INITIAL_REBALANCE_DELAY, MIN_SESSION_TIMEOUT, Outcome, Result, one_line, output

TIMEOUT_S = 600
_SERVICE = """\
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass


class SpawnedService:
    pass
"""
"""In place of the module that starts brokers, which the sdists leave out: here one runs already."""


@dataclass(frozen=True)
class KafkaPython:
    """Its tests, a process for each file."""

    name: str
    archive: Archive
    tests: Mapping[str, str]
    """Files, and a part of the names of those tests in them that touch groups."""
    broker: Mapping[str, str] = field(
        default_factory=lambda: {
            "auto.create.topics.enable": "true",
            "num.partitions": "4",
            INITIAL_REBALANCE_DELAY: "0",
            MIN_SESSION_TIMEOUT: "1000",
        }
    )
    """As in its servers/resources, which the sdists leave out."""
    own_brokers = ""
    topics = ()
    has_consumer_protocol = False
    is_alone = True
    """They have one transactional id."""

    @property
    def version(self) -> str:
        """The package and its version."""
        return f"{self.archive.package} {self.archive.version}"

    def prepare(self) -> None:
        """Fetch it; it is pure Python."""
        tests = self._source / "test"
        (tests / "__init__.py").touch()  # the sdist leaves it out too, and Python has a package test
        (tests / "service.py").write_text(_SERVICE)

    def jobs(self) -> tuple[str, ...]:
        """Return the files."""
        return tuple(self.tests)

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run the tests of one file."""
        report = folder / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null"]
        file = self._source / "test" / "integration" / f"{job}.py"
        printed = output(
            [*command, f"--rootdir={self._source}", f"--junitxml={report}", "-k", self.tests[job], file],
            folder,
            TIMEOUT_S,
            PYTHONPATH=str(self._source),
            KAFKA_URI=f"kafka://{bootstrap}",
            KAFKA_VERSION=kafka_version(),
            KAFKA_ROOT=str(self._source),  # it has to exist, and is not used
        )
        return results(job, report.read_text() if report.exists() else "", printed)

    @property
    def _source(self) -> Path:
        return self.archive.unpacked("kafka-python", f"kafka_python-{self.archive.version}")


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


KAFKA_PYTHON = KafkaPython(
    name="kafka-python",
    archive=Archive(
        Registry.PYPI,
        "kafka-python",
        "3.0.12",
        "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
    ),
    tests={
        "test_consumer_integration": "",
        "test_admin_integration": "group",
        "test_producer_integration": "transactional",
    },
)

OLD_KAFKA_PYTHON = KafkaPython(
    name="old-kafka-python",
    archive=Archive(
        Registry.PYPI,
        "kafka-python",
        "2.3.0",
        "de65b596d26b5c894f227c35c7d29a65cea8f8a1c4f0f2b4e3e2ea60d503acc8",
    ),
    tests={
        "test_consumer_group": "",
        "test_consumer_integration": "",
        "test_admin_integration": "group",
        "test_producer_integration": "transactional",
    },
)
