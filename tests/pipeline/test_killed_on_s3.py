"""The commands on a real S3 server, with somebody killed in the middle of each: the next run gives the right tables.

A run that was killed, or whose S3 server was, is simply repeated.
"""

import contextlib
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pipeline import runs
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline import standalone
from tests.pipeline.command_line import JAVA_OPTIONS
from tests.pipeline.killed import DRIVER, Point, codes, ended, fall_asleep, kill, started, wake
from tests.pipeline.on_disk import tables
from tests.pipeline.s3 import S3
from tests.pipeline.several_commands import Said, run
from tests.pipeline.test_file_systems import prepared
from tests.pipeline.test_on_s3 import jars, s3

__all__ = ["jars", "s3"]  # fixtures

pytestmark = [pytest.mark.timeout(2_400), pytest.mark.long]

WRITE = "pipeline.tables:Table.write"
ANSWERS = {"ready": 0, "progress": 0, "audit": 3, "report": 0, "delta": 3}
"""Exit codes; the audit finds what is planted."""
POINTS = {
    "ready": Point(WRITE, 3, "during"),
    "progress": Point("pipeline.progress.job:Running.wait", 1, "during"),
    "audit": Point(WRITE, 4, "during"),
    "report": Point("pipeline.report.facts:audit", 1, "during"),
    "delta": Point("pipeline.delta:overwrite", 2, "during"),
}
OUTAGE_S = 3.0
LOOK_S = 0.1


def command(name: str, source: str, out: str) -> list[str]:
    """A command that reads from one place and writes to another; ``delta`` is the audit in Delta Lake."""
    of_journal = ["--journal", f"{source}/journal"]
    return {
        "ready": ["readiness", "--capture", f"{source}/capture", *of_journal, "--out", f"{out}/ready"],
        "progress": ["progress", *of_journal, "--out", f"{out}/progress"],
        "audit": ["audit", *of_journal, "--out", f"{out}/audit"],
        "delta": ["audit", *of_journal, "--format", "delta", "--out", f"{out}/delta/audit"],
        "report": [
            *("report", "--readiness", f"{source}/ready", "--progress", f"{source}/progress"),
            *("--audit", f"{source}/audit", "--out", f"{out}/page.html"),
        ],
    }[name]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, and what they write on this machine, undisturbed."""
    folder = tmp_path_factory.mktemp("here")
    prepared(folder)
    names = ("ready", "progress", "audit", "report")
    answers = run([command(name, str(folder), str(folder)) for name in names])
    assert [one.code for one in answers] == [ANSWERS[name] for name in names], answers
    return folder


def test_every_command_gives_the_tables_of_a_local_run(s3: S3, jars: dict[str, str], here: Path) -> None:
    source = s3.put(here, "all")
    out = f"{source}/out"
    names = ("ready", "progress", "audit", "delta", "progress", "report")  # progress goes on once
    answers = run([command(name, source, out) for name in names], s3.settings | jars)
    assert [one.code for one in answers] == [ANSWERS[name] for name in names], answers
    assert_same(s3.bucket / "all" / "out", here)


def test_every_command_whose_driver_is_killed_ends_with_the_same_tables_in_a_second_run(
    s3: S3, jars: dict[str, str], here: Path, tmp_path: Path
) -> None:
    source = s3.put(here, "driver")
    again = {name: command(name, source, f"{source}/out") for name in ANSWERS}
    for name, line in again.items():
        kill(POINTS[name], line, tmp_path / "log", DRIVER, s3.settings | jars)
    run_again(again, s3, jars)
    assert_same(s3.bucket / "driver" / "out", here)


def test_every_command_whose_s3_server_is_killed_ends_with_the_same_tables_in_a_second_run(
    s3: S3, jars: dict[str, str], here: Path, tmp_path: Path
) -> None:
    source = s3.put(here, "server")
    lines = {name: command(name, source, f"{source}/out") for name in ANSWERS}
    log = tmp_path / "log"
    process = started(
        [(POINTS[name], line) for name, line in lines.items()], log, s3.words, s3.settings | jars
    )
    restarts = 0
    while process.poll() is None:
        if s3.is_dead:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(OUTAGE_S)
            s3.start()
            restarts += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
    assert process.returncode == 0, log.read_text(errors="replace")[-3000:]
    assert restarts == len(lines)
    run_what_failed(lines, log, s3, jars)
    assert_same(s3.bucket / "server" / "out", here)


def test_every_command_of_which_an_executor_is_killed_ends_with_the_same_tables_in_a_second_run(
    s3: S3, jars: dict[str, str], here: Path, tmp_path: Path
) -> None:
    source = s3.put(here, "executor")
    lines = {name: command(name, source, f"{source}/out") for name in ANSWERS}
    log, mark = tmp_path / "log", f"-Dof={tmp_path.name}"
    of_executors = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"{JAVA_OPTIONS} {mark}",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    with standalone.cluster(tmp_path, memory="1g", java_options=JAVA_OPTIONS) as master:
        process = started(
            [(POINTS[name], line) for name, line in lines.items()],
            log, ("CoarseGrainedExecutorBackend", mark), s3.settings | jars | of_executors, master,
        )  # fmt: skip
        assert ended(process) == 0, log.read_text(errors="replace")[-3000:]
    run_what_failed(lines, log, s3, jars)
    assert_same(s3.bucket / "executor" / "out", here)


def run_what_failed(lines: Mapping[str, Sequence[str]], log: Path, s3: S3, jars: dict[str, str]) -> None:
    """Run those commands again that could not go on, and said so."""
    first = dict(zip(lines, codes(log), strict=True))
    print(first)
    for name, code in first.items():
        assert code in {ANSWERS[name], ExitCode.FAILED}, log.read_text(errors="replace")[-3000:]
    again = [name for name, code in first.items() if code != ANSWERS[name]]
    if again:
        answers = run([lines[name] for name in again], s3.settings | jars)
        assert [one.code for one in answers] == [ANSWERS[name] for name in again], answers


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("audit", Point("pipeline.runs:replace_if", 1, "before")),
        ("delta", Point("pipeline.delta:overwrite", 2, "before")),
    ],
)
def test_a_driver_that_sleeps_longer_than_its_lock_holds_ends_and_the_tables_are_the_others(
    s3: S3, jars: dict[str, str], here: Path, tmp_path: Path, name: str, point: Point
) -> None:
    source, log = s3.put(here, f"asleep-{name}"), tmp_path / "log"
    line = command(name, source, f"{source}/out")
    asleep = fall_asleep(point, line, log, s3.settings | jars)

    (answer,) = run([line], s3.settings | jars)
    folder = s3.bucket / f"asleep-{name}" / "out" / line[-1].split("/out/")[1]
    manifest = (folder / runs.MANIFEST).read_bytes()
    assert answer.code == ANSWERS[name], answer.output
    wake(asleep)
    assert codes(log) == [ExitCode.FAILED], log.read_text(errors="replace")[-3000:]

    said = log.read_text(errors="replace")
    assert "/_lock: another run has taken the folder, so this one ends" in said, said[-3000:]
    assert (folder / runs.MANIFEST).read_bytes() == manifest
    assert tables(folder.parent, "audit") == tables(here, "audit")


def run_again(lines: Mapping[str, Sequence[str]], s3: S3, jars: dict[str, str]) -> None:
    """Run the commands at the same time, since each waits until the lock of the killed run is free."""
    answers = dict[str, Said]()

    def one(name: str) -> None:
        (answers[name],) = run([lines[name]], s3.settings | jars)

    running = [threading.Thread(target=one, args=[name]) for name in lines]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert {name: said.code for name, said in answers.items()} == ANSWERS, answers


def assert_same(out: Path, here: Path) -> None:
    """The tables and the page are those of the undisturbed run on this machine."""
    for name in ("ready", "progress", "audit"):
        assert tables(out, name) == tables(here, name)
    assert tables(out / "delta", "audit") == tables(here, "audit")
    policies = [one / "ready" / "policy" for one in (out, here)]
    assert len({tuple(file.read_bytes() for file in sorted(one.iterdir())) for one in policies}) == 1
    assert page(out) == page(here)


def page(folder: Path) -> str:
    """The page without when it was written."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", (folder / "page.html").read_text(encoding="utf-8"))
