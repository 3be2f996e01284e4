"""How a journal's files are read, and that a report of any event can be printed."""

import json
from pathlib import Path

import pytest

from pipeline.rules.lines import LAST_US
from pipeline.verify import files, job, printed
from tests.pipeline.rules.test_verifier import WHOLE, event


def test_long_lines_are_read_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_AT_ONCE", 100)
    monkeypatch.setattr(files, "_PIECE", 64)
    path = tmp_path / "a.1.1.jsonl"
    lines = [b"x" * 60 + b"\n"] * 5
    path.write_bytes(b"".join(lines))
    stream = files.FileStream("a.1", [path])
    assert [len(stream.read(1_000)) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.parametrize("time_us", [0, LAST_US, LAST_US + 1, 2**63 - 1, -(2**63)])
def test_a_report_of_an_event_at_any_time_is_printed(
    time_us: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.1.1.jsonl"
    events = [*WHOLE, event(9, "left", "m1", [], time_us=time_us)]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))
    report = job.run([files.FileStream("a.1", [path])], job.Options())
    printed.show(report)
    is_event = 0 <= time_us <= LAST_US
    assert ("quarantined 1: a field has another type" in capsys.readouterr().out) is not is_event


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\nlast"])
def test_lines_are_whole_however_a_file_is_read(
    piece: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PIECE", piece)
    path = tmp_path / "a.1.1.jsonl"
    path.write_bytes(b"one\n\ntwenty\nthree hundred" + end)
    wanted = path.read_bytes().splitlines(keepends=True)
    assert files.FileStream("a.1", [path]).read(1_000) == wanted


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE", 4)
    monkeypatch.setattr(files, "_LONGEST", 10)
    path = tmp_path / "a.1.1.jsonl"
    path.write_bytes(b"0" * 30 + b"\nlast\n")
    assert files.FileStream("a.1", [path]).read(1_000) == [b"0" * 12, b"0" * 12, b"0" * 6 + b"\n", b"last\n"]
