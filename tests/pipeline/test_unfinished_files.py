"""Files that replicas left unfinished: what they have is counted as lost by all commands, and as many as a plain count.

The plain count reads every line of every file, and knows nothing of edges and sequence numbers of the pipeline.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from pipeline import location
from pipeline.audit import job as audit
from pipeline.audit.output import LOSSES
from pipeline.journal import events, unfinished
from pipeline.journal.unfinished import UNFINISHED
from pipeline.progress import job as progress
from pipeline.rules.unfinished import looked_at, unread
from pipeline.verify import files
from proxy.cli import command_line
from tests.pipeline.real_journal import kept
from tests.proxy.journal.journal_writer import Writer, line

pytestmark = pytest.mark.timeout(600)

GONE_S = 120.0
DAY_S = 86_400


def cluster(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Write a journal of replicas that were killed, run, or have ended. Return lines in gone and in written files."""
    by_process: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in kept():
        by_process.setdefault((event["replica"], event["boot"]), []).append(event)
    gone, written = Counter[str](), Counter[str]()
    for number, ((replica, boot), of_process) in enumerate(sorted(by_process.items())):
        at = folder / f"zone-{number % 3}" if number % 2 else folder
        at.mkdir(parents=True, exist_ok=True)
        cut = len(of_process) * number // (len(by_process) + 1)
        label = f"{replica.replace('/', '-')}.{boot}"
        state = ("ended", "gone", "written", "gone without another file")[number % 4]
        if state == "ended":
            write(at / f"{label}.1.jsonl", of_process)
            continue
        if state == "gone without another file":
            cut = 0
        write(at / f"{label}.1.jsonl", of_process[:cut])
        hidden = at / f"_{label}.2.jsonl"
        write(hidden, of_process[cut:], cut_off='{"v": 1, "replica": "')
        age_s = 60 if state == "written" else DAY_S
        os.utime(hidden, (time.time() - age_s,) * 2)
        (written if state == "written" else gone)[hidden.name] = len(of_process) - cut
    return gone, written


def write(file: Path, of_process: list[dict[str, Any]], cut_off: str = "") -> None:
    if of_process:
        file.write_text("".join(f"{json.dumps(one)}\n" for one in of_process) + cut_off, encoding="utf-8")


def test_all_commands_count_what_is_only_in_files_that_nobody_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "journal"
    gone, written = cluster(folder)
    assert len(gone) >= 3
    assert len(written) >= 2

    hidden = unfinished.find(spark, location.of(folder), GONE_S)
    audited = audit.run(spark, events.from_files(spark, folder), tmp_path / "audit", hidden=hidden)
    followed = progress.run(
        spark, progress.lines_of_files(spark, folder), tmp_path / "progress", hidden=lambda: hidden
    )
    certified = verified(folder)

    for summary in (audited, followed):
        assert (summary.unfinished, summary.unread) == (gone, written)
    assert audited.lost == certified["lost"] == sum(gone.values())
    assert audited.events == certified["events"] == len(kept()) - sum(gone.values()) - sum(written.values())
    assert sorted(certified["unfinished"]) == sorted([*gone, *written])
    assert not certified["complete"]
    lost = LOSSES.read(spark, str(tmp_path / "audit")).collect()
    assert sum(row["last_seq"] - row["first_seq"] + 1 for row in lost) == sum(gone.values())
    for out in ("audit", "progress"):
        rows = UNFINISHED.read(spark, str(tmp_path / out)).collect()
        assert {row["file"]: row["unread"] for row in rows} == gone | written


def verified(folder: Path) -> dict[str, Any]:
    answer = CliRunner().invoke(command_line(), ["verify", "--journal", str(folder), "-o", "json"])
    found: dict[str, Any] = json.loads(answer.stdout)["journal"]
    return found


def test_a_killed_writer_is_counted_and_one_that_lives_is_not(tmp_path: Path) -> None:
    """Real processes: what the one that was killed said to have written is what is lost."""
    killed = Writer(tmp_path, "pod-a", until=50, stays=True, max_bytes=4_000)
    killed.wait_written(50)
    killed.kill()
    living = Writer(tmp_path, "pod-b", until=50, stays=True, max_bytes=4_000)
    living.wait_written(50)
    (left,) = tmp_path.glob("_pod-a*")
    os.utime(left, (time.time() - DAY_S,) * 2)
    in_left = len(left.read_bytes().splitlines())
    found = verified(tmp_path)
    living.kill()
    assert 0 < in_left < 50
    assert found["lost"] == in_left
    assert len(found["unfinished"]) == 2


def test_a_finished_file_that_was_read_meanwhile_has_nothing_more() -> None:
    edge = encoded(5) + encoded(9)
    file = looked_at("_r.b.2.jsonl", 1, 1, (edge, edge), is_gone=True)._replace(process=("r", "b"))
    file = file._replace(first_us=50, last_us=90)
    assert [loss.events for _, loss in unread([file], {})] == [9]
    assert [loss[2:] for _, loss in unread([file], {("r", "b"): (4, 40)})] == [(5, 9, 40, 90)]
    assert [loss[2:] for _, loss in unread([file], {("r", "b"): (7, 70)})] == [(8, 9, 70, 90)]
    assert unread([file], {("r", "b"): (9, 90)}) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"no event\n", b'{"v": 1, "seq"'])
def test_a_file_without_an_event_is_named_and_its_number_not_guessed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.b.1.jsonl").write_bytes(encoded(1))
    left = tmp_path / "_r.b.2.jsonl"
    left.write_bytes(content)
    os.utime(left, (0, 0))
    (found,) = files.find(tmp_path).unfinished
    assert (found.process, found.last_seq, found.is_gone) == (None, None, True)
    journal = verified(tmp_path)
    assert (journal["lost"], journal["complete"]) == (0, False)


def test_the_last_line_counts_when_it_is_whole() -> None:
    whole, begun = encoded(1) + encoded(2), encoded(3).rstrip(b"\n")
    for content in (whole, whole + begun, whole + begun[:20]):
        found = looked_at("_r.b.1.jsonl", len(content), 0, (content, content), is_gone=True)
        assert (found.first_seq, found.last_seq) == (1, 2)


def encoded(seq: int) -> bytes:
    return msgspec.json.encode(line(seq)) + b"\n"
