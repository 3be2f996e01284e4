"""Kafka's own tests of consumers with brokers, from its test jar; each test starts a cluster in its process."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.judges.comparison import Entry
from tools.judges.source import BUILD
from tools.judges.suite import ROOT, Outcome, Result, UnavailableError, one_line, output
from tools.kafka import jars
from tools.maven import MavenError, ensure_dependencies

HERE = Path(__file__).parent
KAFKA = "4.1.1"
EXTENSION = "ThroughProxy"
TESTS: Mapping[str, tuple[str, ...]] = {
    "ConsumerBounceTest": (),
    "PlaintextConsumerAssignorsTest": (),
    "PlaintextConsumerTest": (
        *("testCoordinatorFailover", "testGroupConsumption", "testPauseStateNotPreservedByRebalance"),
        *("testCloseLeavesGroupOnInterrupt", "testStaticConsumerDetectsNewPartitionCreatedAfterRestart"),
        "testPerPartitionLagMetricsCleanUpWithSubscribe",
    ),
}
"""Classes of kafka.api, and the methods in them that touch groups; none means all."""
TIMEOUT_S = 900
_NO_BROKER = "Received a fatal error while waiting for all of the SocketServer Acceptors"
"""What a test says whose broker could not bind its port: Kafka's harness chooses a free one, and another process may
have it by then."""
_SHOWN = re.compile(r"(\w+)\([^)]*\)\.?(.*)")
"""How JUnit names a test with parameters."""


class KafkaOwn:
    """A process for each class; JUnit starts our extension, which starts a proxy for each test."""

    name = "kafka"
    version = f"kafka_2.13:{KAFKA}:test"
    own_brokers = KAFKA
    broker: Mapping[str, str] = {}
    topics = ()
    has_consumer_protocol = False
    """The same tests run with both protocols; the names say with which."""
    is_alone = False

    def prepare(self) -> None:
        """Fetch the jars, and compile the extension."""
        folder = BUILD / f"kafka-{KAFKA}"
        try:
            what = f"the tests of Kafka {KAFKA}"
            ensure_dependencies(
                HERE / "pom.xml", folder / "libs", {"kafka.version": KAFKA}, what=what, say=print
            )
            compiler = jars.java_home_program("javac")
        except (MavenError, jars.KafkaUnavailableError) as error:
            raise UnavailableError(str(error)) from error
        services = folder / "extension" / "META-INF" / "services"
        services.mkdir(parents=True, exist_ok=True)
        (services / "org.junit.jupiter.api.extension.Extension").write_text(f"{EXTENSION}\n")
        command = [compiler, "-cp", f"{folder}/libs/*", "-d", str(folder / "extension")]
        compiled = subprocess.run(
            [*command, str(HERE / f"{EXTENSION}.java")], check=False, capture_output=True, text=True
        )
        if compiled.returncode:
            raise UnavailableError(compiled.stderr)

    def jobs(self) -> tuple[str, ...]:
        """Return the classes."""
        return tuple(TESTS)

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run the tests of a class; ``bootstrap`` is the entry, as the brokers are not there yet."""
        classes = BUILD / f"kafka-{KAFKA}"
        proxy = (sys.executable, "-m", f"{__name__}.proxy", str(folder / "proxy"))
        line = "\t".join(proxy) if bootstrap == Entry.THROUGH else ""
        report = folder / "results.tsv"
        temporary = folder / "tmp"
        temporary.mkdir()
        name = f"kafka.api.{job}"
        selected = [f"--select-method={name}#{one}(java.lang.String)" for one in TESTS[job]]
        printed = output(
            [
                *(jars.java_home_program("java"), "-Xmx1g", f"-Djava.io.tmpdir={temporary}"),
                *("-Djunit.jupiter.extensions.autodetection.enabled=true", f"-Djudges.proxy={line}"),
                f"-Djudges.results={report}",
                *(
                    "-cp",
                    f"{classes}/extension:{classes}/libs/*",
                    "org.junit.platform.console.ConsoleLauncher",
                ),
                *("execute", "--disable-banner", "--details=none"),
                *(selected or [f"--select-class={name}"]),
            ],
            folder,
            TIMEOUT_S,
            PYTHONPATH=str(ROOT),
        )
        shutil.rmtree(temporary, ignore_errors=True)  # the brokers' logs
        return results(job, report.read_text() if report.exists() else "", printed)


def results(job: str, report: str, printed: str) -> list[Result]:
    """Return what became of the tests of a class, by what our extension wrote: method and parameters."""
    if not report:
        last = printed.strip().splitlines()[-1:] or ["no output"]
        return [Result(job, Outcome.FAILED, 0.0, f"no report: {one_line(last[0])}")]
    return [_result(job, *line.split("\t")) for line in report.splitlines()]


def _result(job: str, outcome: str, seconds: str, shown: str, reason: str) -> Result:
    named = _SHOWN.fullmatch(shown)
    name = " ".join(filter(None, named.groups())) if named else shown
    became = Outcome.SKIPPED if reason.startswith(_NO_BROKER) else Outcome(outcome)
    return Result(f"{job}/{name}", became, float(seconds), one_line(reason))
