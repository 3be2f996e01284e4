"""The commands on a real HDFS: the tables are those of a local run."""

from pathlib import Path

import pytest

from tests.pipeline import hdfs
from tests.pipeline.on_disk import tables
from tests.pipeline.several_commands import run
from tests.pipeline.test_file_systems import prepared
from tests.skips import Need, without
from tools.hdfs.jars import ensure_hdfs
from tools.maven import MavenError

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]


def every(source: str, out: str) -> list[tuple[str, ...]]:
    """The commands; progress goes on from its checkpoint once."""
    journal = ("--journal", f"{source}/journal")
    tables_of = ("--readiness", f"{out}/ready", "--progress", f"{out}/progress", "--audit", f"{out}/audit")
    return [
        ("readiness", "--capture", f"{source}/capture", *journal, "--out", f"{out}/ready"),
        ("progress", *journal, "--out", f"{out}/progress"),
        ("progress", *journal, "--out", f"{out}/progress"),
        ("audit", *journal, "--out", f"{out}/audit"),
        ("report", *tables_of, "--out", f"{out}/page.html"),
    ]


def test_every_command_gives_the_tables_of_a_local_run(tmp_path: Path) -> None:
    try:
        ensure_hdfs()
    except MavenError as reason:
        without(Need.KAFKA, f"no jars for HDFS: {reason}")
    here, there = tmp_path / "here", tmp_path / "there"
    prepared(here)
    with hdfs.cluster(tmp_path) as at:
        hdfs.shell(["-put", f"file:{here}", f"{at}/in"])
        commands = [*every(str(here), str(here / "out")), *every(f"{at}/in", f"{at}/out")]
        answers = run(commands)
        assert [one.code for one in answers] == [0, 0, 0, 3, 0] * 2, answers
        hdfs.shell(["-get", f"{at}/out", f"file:{there}"])
    for name in ("ready", "progress", "audit"):
        assert tables(there, name) == tables(here / "out", name)
    assert (there / "page.html").stat().st_size == (here / "out" / "page.html").stat().st_size
