"""kafka-python's integration tests, from its source distribution, with the client of the same distribution."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.test_bed import kafka_version
from tools.judges.source import Archive, Registry
from tools.judges.suite import Outcome, Result

ARCHIVE = Archive(
    Registry.PYPI,
    "kafka-python",
    "3.0.12",
    "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
)
FILES = ("test_consumer_integration", "test_admin_integration")
"""Those of test/integration in which consumers have a group."""
MISSING = {
    "__init__.py": "",
    "service.py": """\
class SpawnedService:
    '''A broker of the tests' own: not used here.'''


class ExternalService:
    '''The broker that is given.'''

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass
""",
}
"""Modules of the folder test that are in the library's repository only."""
TIMEOUT_S = 600
REPORT = "report.xml"


class KafkaPython:
    """Its tests, a file after the other."""

    name = "kafka-python"
    version = f"{ARCHIVE.package} {ARCHIVE.version}"
    broker: Mapping[str, str] = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    has_consumer_protocol = False

    def prepare(self) -> None:
        """Fetch it, and add what its tests import and the distribution lacks."""
        for file, text in MISSING.items():
            (_source() / "test" / file).write_text(text)

    def jobs(self) -> tuple[str, ...]:
        """Return the files."""
        return FILES

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run one file by pytest, with the library of its distribution; the protocol is always the classic one."""
        command = [
            *(sys.executable, "-m", "pytest", f"test/integration/{job}.py", "-p", "no:cacheprovider"),
            f"--junitxml={folder / REPORT}",
        ]
        environment = {
            **os.environ,
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": kafka_version(),
            "PYTHONPATH": str(_source()),
        }
        with (folder / "output.txt").open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                cwd=_source(),
                env=environment,
                check=False,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT_S,
            )
        report = folder / REPORT
        return (
            results(report.read_text())
            if report.exists()
            else [Result(job, Outcome.FAILED, 0.0, "no report")]
        )


def results(report: str) -> list[Result]:
    """Return what became of each test of a JUnit report."""
    return [_result(case) for case in ET.fromstring(report).iter("testcase")]  # noqa: S314  ours


def _result(case: ET.Element) -> Result:
    test, seconds = case.get("name", ""), float(case.get("time", "0"))
    if case.find("skipped") is not None:
        return Result(test, Outcome.SKIPPED, seconds)
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return Result(test, Outcome.FAILED, seconds, " ".join(found.get("message", "").split())[:200])
    return Result(test, Outcome.PASSED, seconds)


def _source() -> Path:
    return ARCHIVE.unpacked("kafka-python", f"kafka_python-{ARCHIVE.version}")
