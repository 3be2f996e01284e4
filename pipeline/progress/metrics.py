"""Serves what the streams do as Prometheus metrics, from the driver, on loopback unless another address is given.

Spark keeps the progress of the newest batches of each stream; they are read while it runs, and each batch counts once.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline.errors import PipelineError
from protocol_codecs.foreign import JsonDecoder, Undecodable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pipeline.progress.live import LiveAudit

_PREFIX = "epochgate_progress_"
_read_offsets = JsonDecoder(dict[str, dict[str, int]], 16 * 1024 * 1024)


class OfStream(NamedTuple):
    """What a stream has done so far."""

    batches: int = 0
    rows: int = 0
    late: int = 0
    batch: int = -1
    """The newest batch that counts."""
    seconds: float = 0.0
    """How long it took."""
    rows_in_batch: int = 0
    newest_us: int = 0
    """The newest event that it knows of, microseconds since 1970."""
    behind: float | None = None
    """Records of the topic that have not been read; None for files."""
    state_rows: int = 0
    state_bytes: int = 0
    watermark_us: int = 0


def after(known: OfStream, told: dict[str, Any]) -> OfStream:
    """Return what a stream has done, given the progress of a batch as Spark tells it."""
    is_new = told["batchId"] > known.batch
    operators = told.get("stateOperators") or []
    event_time = told.get("eventTime") or {}
    return known._replace(
        batches=known.batches + is_new,
        rows=known.rows + (told["numInputRows"] if is_new else 0),
        late=known.late + (sum(one["numRowsDroppedByWatermark"] for one in operators) if is_new else 0),
        batch=max(known.batch, told["batchId"]),
        seconds=(told.get("durationMs") or {}).get("triggerExecution", 0) / 1000 if is_new else known.seconds,
        rows_in_batch=told["numInputRows"] if is_new else known.rows_in_batch,
        newest_us=max(known.newest_us, _us(event_time.get("max"))),
        watermark_us=max(known.watermark_us, _us(event_time.get("watermark"))),
        behind=_behind(told.get("sources") or []),
        state_rows=sum(one["numRowsTotal"] for one in operators),
        state_bytes=sum(one["memoryUsedBytes"] for one in operators),
    )


def _us(text: str | None) -> int:
    """Return a time as Spark writes it, in microseconds."""
    if not text:
        return 0
    from datetime import datetime  # noqa: PLC0415

    return int(datetime.fromisoformat(text).timestamp() * 1_000_000)


def _behind(sources: Iterable[dict[str, Any]]) -> float | None:
    """Return how many records Kafka has beyond what the batch read. PySpark has offsets as JSON text."""
    found = None
    for one in sources:
        latest, end = (_offsets(one.get(name)) for name in ("latestOffset", "endOffset"))
        if latest is not None and end is not None:
            found = (found or 0.0) + sum(
                offset - end.get(topic, {}).get(number, 0)
                for topic, partitions in latest.items()
                for number, offset in partitions.items()
            )
    return found


def _offsets(told: str | None) -> dict[str, dict[str, int]] | None:
    """Return offsets by topic and partition; None for what has none, such as files."""
    try:
        return _read_offsets.decode((told or "").encode())
    except Undecodable:
        return None


class Progress(Collector):
    """What all streams have done; a collector of Prometheus."""

    def __init__(self) -> None:
        self.streams: dict[str, OfStream] = {}
        self.audit: LiveAudit | None = None
        self.unfinished: dict[str, dict[str, int | None]] = {"gone": {}, "written": {}}
        """The journal's files that are not finished, by what is known of their process, with their events."""
        self.derived_us = 0
        """When the derived tables were written last; 0: not yet."""
        self.derive_s = 0.0

    def add(self, name: str, told: Iterable[dict[str, Any]]) -> None:
        """Take the progress of a stream's newest batches, oldest first."""
        known = self.streams.get(name, OfStream())
        for one in told:
            if one["batchId"] >= known.batch:
                known = after(known, one)
        self.streams[name] = known

    def collect(self) -> Iterator["Metric"]:
        """Yield the metrics as they are now."""
        streams = dict(self.streams)
        for name, text, field in _COUNTERS:
            counter = CounterMetricFamily(_PREFIX + name, text, labels=["stream"])
            for stream, known in streams.items():
                counter.add_metric([stream], getattr(known, field))
            yield counter
        for name, text, field in _GAUGES:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=["stream"])
            for stream, known in streams.items():
                if (value := getattr(known, field)) is not None:
                    gauge.add_metric([stream], value)
            yield gauge
        lag = GaugeMetricFamily(
            _PREFIX + "event_lag_seconds",
            "Age of the newest event that a stream has read.",
            labels=["stream"],
        )
        for stream, known in streams.items():
            if known.newest_us:
                lag.add_metric([stream], time.time() - known.newest_us / 1_000_000)
        yield lag
        yield GaugeMetricFamily(
            _PREFIX + "derived_timestamp_seconds", "When the derived tables were written last.",
            value=self.derived_us / 1_000_000,
        )  # fmt: skip
        yield GaugeMetricFamily(
            _PREFIX + "derive_duration_seconds", "How long that took.", value=self.derive_s
        )
        files = GaugeMetricFamily(
            _PREFIX + "unfinished_files",
            "Files of the journal that are not finished, when the derived tables were written last.",
            labels=["process"],
        )
        lines = GaugeMetricFamily(
            _PREFIX + "unfinished_events",
            "Events that only these have, as far as is known.",
            labels=["process"],
        )
        for process, found in self.unfinished.items():
            files.add_metric([process], len(found))
            lines.add_metric([process], sum(count or 0 for count in found.values()))
        yield from (files, lines)
        if self.audit is not None:
            yield from _of_audit(self.audit)


_COUNTERS = (
    ("batches", "Batches that a stream has finished, by this run.", "batches"),
    ("input_rows", "Journal lines that a stream has read, by this run.", "rows"),
    ("late_events", "Events dropped because they came later than --lateness, by this run.", "late"),
)
_GAUGES = (
    ("batch_duration_seconds", "How long the newest batch took.", "seconds"),
    ("batch_rows", "Journal lines of the newest batch.", "rows_in_batch"),
    ("behind_records", "Records of the topic that were not read when the newest batch began.", "behind"),
    ("state_rows", "Rows of a stream's state.", "state_rows"),
    ("state_bytes", "Memory of a stream's state stores.", "state_bytes"),
)
_SHARD_GAUGES = (
    ("audit_groups", "Groups that the live audit keeps.", "groups"),
    ("audit_waiting_events", "Events that wait for their turn.", "waiting"),
    ("audit_lost_events", "Events that are missing, as one shard knows it.", "lost"),
    ("audit_too_large_groups", "Groups that are too large to be judged live.", "too_large"),
)
_SHARD_COUNTERS = (
    ("audit_late_events", "Events that came after their turn and were left out.", "late"),
    ("audit_left_out_events", "Events of groups that there was no room for.", "left_out"),
)


NAMES = frozenset(
    [
        *(f"{_PREFIX}{name}_total" for name, _, _ in (*_COUNTERS, *_SHARD_COUNTERS)),
        *(_PREFIX + name for name, _, _ in (*_GAUGES, *_SHARD_GAUGES)),
        *(
            _PREFIX + name
            for name in ("event_lag_seconds", "audit_lag_seconds", "live_overlaps_total", "live_violations")
        ),
        *(_PREFIX + name for name in ("derived_timestamp_seconds", "derive_duration_seconds")),
        *(_PREFIX + name for name in ("unfinished_files", "unfinished_events")),
    ]
)
"""All metrics but those of the process."""


def _of_audit(audit: "LiveAudit") -> Iterator["Metric"]:
    told = list(audit.told.values())
    found = CounterMetricFamily(
        _PREFIX + "live_overlaps",
        "Partitions with two owners at once, by the class that was told, of all runs; in both if it changed.",
        labels=["class"],
    )
    for name, count in {"violation": 0, **audit.counts}.items():
        found.add_metric([name], count)
    yield found
    holds = GaugeMetricFamily(
        _PREFIX + "live_violations",
        "Violations among the newest overlaps that hold by now, by what may still change that.",
        labels=["pending"],
    )
    for pending, count in audit.standing.items():
        holds.add_metric([pending], count)
    yield holds
    for name, text, field in _SHARD_GAUGES:
        values = [getattr(one, field) for one in told]
        value = max(values, default=0) if field == "lost" else sum(values)
        yield GaugeMetricFamily(_PREFIX + name, text, value=value)
    for name, text, field in _SHARD_COUNTERS:
        yield CounterMetricFamily(_PREFIX + name, text, value=sum(getattr(one, field) for one in told))
    if told:
        until_us = min(one.until_us for one in told)
        yield GaugeMetricFamily(
            _PREFIX + "audit_lag_seconds",
            "Age of the newest event that the live audit has judged.",
            value=time.time() - until_us / 1_000_000,
        )


@contextlib.contextmanager
def served(progress: Progress, host: str, port: int | None) -> Iterator[int | None]:
    """Serve the metrics while inside, unless ``port`` is None (0: any free one); yield the port.

    Raises PipelineError if the address is taken.
    """
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(progress)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise PipelineError(f"metrics can't be served on {host}:{port}: {error.strerror or error}") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
