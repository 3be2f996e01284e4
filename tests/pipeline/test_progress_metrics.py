"""The metrics of progress, from what Spark tells of its batches."""

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import PipelineError
from pipeline.progress.metrics import NAMES, Progress, served
from pipeline.rules.shard import Told


def batch(number: int, rows: int, **other: Any) -> dict[str, Any]:
    """As Spark tells it, as far as it matters here."""
    return {
        "batchId": number,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1_500},
        "eventTime": {"max": "2026-09-21T12:00:00.000Z", "watermark": "2026-09-21T11:00:00.000Z"},
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1_000, "numRowsDroppedByWatermark": 2}],
        "sources": [{"endOffset": '{"t": {"0": 5, "1": 5}}', "latestOffset": '{"t": {"0": 9, "1": 6}}'}],
    } | other


def page(progress: Progress) -> dict[str, float]:
    """The metrics as Prometheus reads them."""
    with (
        served(progress, "127.0.0.1", 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


class Audited:
    """A live audit of two shards."""

    counts = {"violation": 1}  # noqa: RUF012 - not changed
    standing = {"none": 1}  # noqa: RUF012 - likewise
    told = dict.fromkeys(
        range(2), Told(1, 1, 2, 2, [], 0, {}, [], [], [], [], [], [], [], groups=3, waiting=4, late=5, lost=6,
                       unreadable=0, left_out=0, too_large=0, state_bytes=1)
    )  # fmt: skip


def test_each_batch_counts_once_and_the_newest_says_how_it_stands() -> None:
    progress = Progress()
    progress.add("transitions", [batch(0, 10), batch(1, 20)])
    progress.add("transitions", [batch(1, 20), batch(2, 0, stateOperators=[], sources=[])])
    found = page(progress)
    stream = '{stream="transitions"}'
    assert found[f"epochgate_progress_batches_total{stream}"] == 3
    assert found[f"epochgate_progress_input_rows_total{stream}"] == 30
    assert found[f"epochgate_progress_late_events_total{stream}"] == 4
    assert found[f"epochgate_progress_state_rows{stream}"] == 0
    assert found[f"epochgate_progress_batch_duration_seconds{stream}"] == 1.5
    assert found[f"epochgate_progress_event_lag_seconds{stream}"] > 0
    assert "process_resident_memory_bytes" in found


def test_all_metrics_are_those_that_are_documented() -> None:
    progress = Progress()
    progress.add("audit", [batch(0, 10)])
    progress.audit = Audited()  # type: ignore[assignment]  # what it has told is all that is asked for
    found = {name.partition("{")[0] for name in page(progress)}
    assert {name for name in found if name.startswith("epochgate_")} == NAMES
    text = Path("docs/how-to/stream.md").read_text(encoding="utf-8")
    assert set(re.findall(r"epochgate_progress_[a-z_]+", text)) == NAMES


def test_records_behind_are_what_kafka_has_beyond_the_batch() -> None:
    progress = Progress()
    progress.add("audit", [batch(0, 10)])
    assert page(progress)['epochgate_progress_behind_records{stream="audit"}'] == 5
    files = [{"endOffset": '{"logOffset": 3}', "latestOffset": None}]
    progress.add("audit", [batch(1, 10, sources=files)])
    assert 'epochgate_progress_behind_records{stream="audit"}' not in page(progress)


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with (
        served(Progress(), "127.0.0.1", 0) as port,
        pytest.raises(PipelineError, match=f"metrics can't be served on 127.0.0.1:{port}"),
        served(Progress(), "127.0.0.1", port),
    ):
        pass
