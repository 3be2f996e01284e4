"""node-rdkafka's end-to-end tests, from its npm package: JavaScript over the librdkafka that the package holds."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tools.judges.librdkafka import build_library
from tools.judges.source import Archive, Registry
from tools.judges.suite import (
    INITIAL_REBALANCE_DELAY,
    Outcome,
    Result,
    UnavailableError,
    build,
    one_line,
    output,
)

ARCHIVE = Archive(
    Registry.NPM,
    "node-rdkafka",
    "3.6.1",
    "148f7e7b65c510314c70762d8f1be052c8fe1fdf03a128e6c78083a729a57a30",
)
MOCHA = "10.8.2"
FILES = ("consumer", "both", "groups")
"""Those of package/e2e with consumers."""
TIMEOUT_S = 150
"""Of one test: mocha bounds it and what cleans up after it, each by 60 s."""


class NodeRdkafka:
    """Its tests, a job for each file."""

    name = "node-rdkafka"
    version = f"{ARCHIVE.package} {ARCHIVE.version}"
    broker: Mapping[str, str] = {"auto.create.topics.enable": "true", INITIAL_REBALANCE_DELAY: "0"}
    """As in its docker-compose.yml."""
    own_brokers = ""
    topics = ("test", "test2", "test3", "test4", "test5", "test6")
    """Those of its run_docker.sh."""
    has_consumer_protocol = False
    is_alone = True
    """They read what others of the same topic write."""

    def prepare(self) -> None:
        """Fetch and build it (two minutes on two cores, once).

        Its own install script builds librdkafka in one process and fails with more, so librdkafka is built before.
        """
        source = _source()
        if (source / "build" / "Release" / "node-librdkafka.node").exists():
            return
        node = shutil.which("node")
        if node is None:
            raise UnavailableError("there is no node")
        headers = Path(node).resolve().parents[1]
        given = {"npm_config_nodedir": str(headers)} if (headers / "include" / "node").exists() else {}
        # mocha is one of them, and npm leaves it out with them.
        build(["npm", "pkg", "delete", "devDependencies"], source)
        build(["npm", "install", "--no-save", "--ignore-scripts", f"mocha@{MOCHA}"], source)
        library = source / "deps" / "librdkafka"
        build_library(library)
        parts = [library / "src", library / "src-cpp"]
        build(
            ["npm", "run", "install"],
            source,
            BUILD_LIBRDKAFKA="0",
            CXXFLAGS=" ".join(f"-I{part}" for part in parts),
            LDFLAGS=" ".join(f"-L{part} -Wl,-rpath,{part}" for part in parts),
            npm_config_jobs="2",
            **given,
        )

    def jobs(self) -> tuple[str, ...]:
        """Return the files."""
        return FILES

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run the tests of one file, each in a process: mocha ends a file where what cleans up after a test fails."""
        file = _source() / "e2e" / f"{job}.spec.js"
        titles = _mocha(job, file, folder / "titles", bootstrap, "--dry-run")
        return [
            one
            for number, test in enumerate(titles)
            for one in _mocha(
                job,
                file,
                folder / str(number),
                bootstrap,
                f"--grep=^{re.escape(test.test.removeprefix(f'{job}/'))}$",
            )
        ]


def _mocha(job: str, file: Path, folder: Path, bootstrap: str, option: str) -> list[Result]:
    folder.mkdir()
    report = folder / "report.json"
    mocha = _source() / "node_modules" / ".bin" / "mocha"
    options = ["--exit", "--timeout=60000", "--reporter=json", f"--reporter-option=output={report}"]
    printed = output([mocha, *options, option, file], folder, TIMEOUT_S, KAFKA_HOST=bootstrap)
    return results(job, report.read_text() if report.exists() else "", printed)


class _Error(msgspec.Struct):
    message: str = ""


class _Test(msgspec.Struct, rename="camel"):
    full_title: str
    duration: int = 0
    err: _Error = msgspec.field(default_factory=_Error)


class _Report(msgspec.Struct):
    passes: list[_Test]
    failures: list[_Test]
    pending: list[_Test]


def results(job: str, report: str, printed: str) -> list[Result]:
    """Return what became of the tests of a file, by mocha's report."""
    if not report:
        last = printed.strip().splitlines()[-1:] or ["no output"]
        return [Result(job, Outcome.FAILED, 0.0, f"no report: {one_line(last[0])}")]
    read = msgspec.json.decode(report, type=_Report)
    by_outcome = {Outcome.PASSED: read.passes, Outcome.FAILED: read.failures, Outcome.SKIPPED: read.pending}
    return [
        Result(f"{job}/{one.full_title}", outcome, one.duration / 1000, one_line(one.err.message))
        for outcome, tests in by_outcome.items()
        for one in tests
    ]


def _source() -> Path:
    return ARCHIVE.unpacked("node-rdkafka", "package")
