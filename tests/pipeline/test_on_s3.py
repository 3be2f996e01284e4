"""The commands on a real S3 server: the tables are those of a local run, whoever is killed in between.

A run that was killed, or whose S3 server or executors were, is simply repeated.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from proxy.console.exit_codes import ExitCode
from tests.pipeline import standalone
from tests.pipeline.command_line import JAVA_OPTIONS, pipeline
from tests.pipeline.on_disk import rows, tables
from tests.pipeline.s3 import S3
from tests.pipeline.several_commands import run
from tests.pipeline.test_file_systems import prepared
from tools.maven import MavenError
from tools.s3_server import built
from tools.spark_s3.jars import ensure_s3

pytestmark = pytest.mark.timeout(1_800)

ANSWERS = {"ready": 0, "progress": 0, "audit": 3, "report": 0}
"""Exit codes; the audit finds what is planted."""
OUTAGE_S = 3.0
ENDS_S = 900.0


def command(name: str, source: str, out: str) -> list[str]:
    """A command that reads from one place and writes to another."""
    of_journal = ["--journal", f"{source}/journal"]
    return {
        "ready": ["readiness", "--capture", f"{source}/capture", *of_journal, "--out", f"{out}/ready"],
        "progress": ["progress", *of_journal, "--out", f"{out}/progress"],
        "audit": ["audit", *of_journal, "--out", f"{out}/audit"],
        "report": [
            *("report", "--readiness", f"{source}/ready", "--progress", f"{source}/progress"),
            *("--audit", f"{source}/audit", "--out", f"{out}/page.html"),
        ],
    }[name]


@pytest.fixture(scope="module")
def jars() -> dict[str, str]:
    try:
        return {"spark.jars": ",".join(map(str, ensure_s3()))}
    except MavenError as reason:
        pytest.skip(f"no jars for S3: {reason}")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    program = built.program()
    if program is None:
        pytest.skip("versitygw is not built: python -m tools.s3_server.built")
    server = S3(program, tmp_path_factory.mktemp("s3"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.kill()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, and what they write on this machine, undisturbed."""
    folder = tmp_path_factory.mktemp("here")
    prepared(folder)
    answers = run([command(name, str(folder), str(folder)) for name in ANSWERS])
    assert [one.code for one in answers] == list(ANSWERS.values()), answers
    return folder


def test_the_audit_of_a_bucket_is_that_of_a_folder(s3: S3, jars: dict[str, str], tmp_path: Path) -> None:
    prepared(tmp_path)
    source = s3.put(tmp_path, "short")
    local, there = run(
        [command("audit", str(tmp_path), str(tmp_path)), command("audit", source, f"{source}/out")],
        s3.settings | jars,
    )
    assert (local.code, there.code) == (ExitCode.PROBLEM_FOUND, ExitCode.PROBLEM_FOUND), there.output
    assert tables(s3.bucket / "short" / "out", "audit") == tables(tmp_path, "audit")


@pytest.mark.long
def test_every_command_gives_the_tables_of_a_local_run(s3: S3, jars: dict[str, str], here: Path) -> None:
    source = s3.put(here, "all")
    out = f"{source}/out"
    answers = run(
        [
            *(command(name, source, out) for name in ("ready", "progress", "audit")),
            command("progress", source, out),  # goes on from its checkpoint in the bucket
            command("report", source, out),
        ],
        s3.settings | jars,
    )
    assert [one.code for one in answers] == [0, 0, 3, 0, 0], answers
    assert_same(s3.bucket / "all" / "out", here)


@pytest.mark.long
@pytest.mark.parametrize("killed", ["server", "driver"])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_second_run_ends_with_the_same_tables(
    name: str, killed: str, s3: S3, jars: dict[str, str], here: Path
) -> None:
    folder = f"{name}-{killed}"
    line = pipeline(*command(name, s3.put(here, folder), f"s3a://bucket/{folder}/out"))
    first = start(line, s3, jars)
    wait_until_in_the_middle(first, name, folder, s3)
    if killed == "driver":
        os.killpg(first.pid, signal.SIGKILL)
    else:
        s3.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            first.wait(OUTAGE_S)
        s3.start()
    first.wait(ENDS_S)
    if killed == "driver":
        assert first.returncode == -signal.SIGKILL

    second = start(line, s3, jars)
    assert second.wait(ENDS_S) == ANSWERS[name], said(second)
    assert_same(s3.bucket / folder / "out", here, only=name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ready", "progress", "audit"])
def test_a_killed_executor_changes_no_table(
    name: str, s3: S3, jars: dict[str, str], here: Path, tmp_path: Path
) -> None:
    folder = f"{name}-executor"
    source = s3.put(here, folder)
    with standalone.cluster(tmp_path, memory="1g", java_options=JAVA_OPTIONS) as master:
        line = pipeline(
            *command(name, source, f"{source}/out"), master=master,
            spark_executor_memory="512m", spark_driver_host="127.0.0.1", spark_ui_enabled="false",
        )  # fmt: skip
        first = start(line, s3, jars)
        wait_until_in_the_middle(first, name, folder, s3)
        os.kill(standalone.executors(tmp_path)[0], signal.SIGKILL)
        code = first.wait(ENDS_S)
        if code != ANSWERS[name]:  # it lost more than it can compute again, and says so
            assert code == ExitCode.FAILED, said(first)
            assert start(line, s3, jars).wait(ENDS_S) == ANSWERS[name]
    assert_same(s3.bucket / folder / "out", here, only=name)


def start(line: Sequence[str], s3: S3, jars: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, with its JVM. What it says goes to a file."""
    settings = [f"--conf={key}={value}" for key, value in (s3.settings | jars).items()]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (s3.folder.parent / "said").open("wb") as output:
        process = subprocess.Popen(
            [*line, *settings], stdout=output, stderr=output, start_new_session=True, env=environment
        )
    process.args = str(s3.folder.parent / "said")
    return process


def said(process: subprocess.Popen[bytes]) -> str:
    return Path(str(process.args)).read_text(errors="replace")[-3000:]


def wait_until_in_the_middle(process: subprocess.Popen[bytes], name: str, folder: str, s3: S3) -> None:
    """Return as soon as the server has answered a call that comes neither first nor last."""
    call = {
        "ready": r"PUT \| /bucket/{}/out/ready/quarantine/_SUCCESS",
        "progress": r"PUT \| /bucket/{}/out/progress/_checkpoints/transitions/offsets/0",
        "audit": r"PUT \| /bucket/{}/out/audit/processes/_SUCCESS",
        "report": r"GET \| /bucket/{}/audit/overlaps/part",
    }[name].format(folder)
    deadline = time.monotonic() + ENDS_S
    while re.search(call, s3.said()) is None:
        assert process.poll() is None, said(process)
        assert time.monotonic() < deadline, said(process)
        time.sleep(0.05)


def assert_same(out: Path, here: Path, only: str | None = None) -> None:
    """The tables, or the page, are those of the undisturbed run on this machine."""
    for name in ("ready", "progress", "audit"):
        if only in {None, name}:
            assert tables(out, name) == tables(here, name)
    if only in {None, "ready"}:
        policies = [one / "ready" / "policy" for one in (out, here)]
        assert len({tuple(file.read_bytes() for file in sorted(one.iterdir())) for one in policies}) == 1
    if only in {None, "report"}:
        assert page(out) == page(here)


def page(folder: Path) -> str:
    """The page without when it was written."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", (folder / "page.html").read_text(encoding="utf-8"))


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """The comparison itself: rows that differ, and windows of which the newest counts."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as parquet  # noqa: PLC0415

    for batch, count in ((2, 5), (10, 7)):
        folder = tmp_path / "windows" / f"batch={batch}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"group": ["a"], "from_us": [1], "n": [count]}), folder / "p.parquet")
    assert rows(tmp_path / "windows") == ["{'group': 'a', 'from_us': 1, 'n': 7}"]
