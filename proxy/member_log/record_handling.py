"""Hands the records that were read to the member log, and counts those that are none of it."""

from collections import Counter

import structlog

from proxy.member_log.log_events import GroupRecordRead, ReadEvent, RecordIgnored, RecordRead, RecordUnknown
from proxy.member_log.log_metrics import LogMetrics
from translation.member_log.counting import Stored
from translation.member_log.group_records import GroupKey
from translation.member_log.member_log import MemberLog
from translation.member_log.records import Ignored
from translation.member_log.replicas import Replicas

_LONGEST_WHY = 300

_logger = structlog.get_logger()


class RecordHandler:
    """No record ends the use of the log: what can't be handled is skipped."""

    def __init__(self, log: MemberLog, replicas: Replicas, metrics: LogMetrics) -> None:
        self._log = log
        self._replicas = replicas
        self._metrics = metrics
        self.ignored: Counter[Ignored] = Counter()
        """The records that were skipped, by why."""

    def handle(self, event: ReadEvent, now: float) -> None:
        """Handle a record. One that meets a bug here is skipped: it would be there after a restart too."""
        offset = event.stored.offset if isinstance(event, GroupRecordRead) else event.offset
        try:
            self._handle(event, now)
        except Exception as error:
            _logger.exception("a record met an unexpected error")
            self._metrics.failed()
            self._ignore(event.partition, offset, Ignored.ERROR, repr(error)[:_LONGEST_WHY])
            self._log.read_to(event.partition, offset + 1, now)

    def _handle(self, event: ReadEvent, now: float) -> None:
        match event:
            case RecordRead(partition, _, writer, None, offset, appended_ms, replica):
                self._metrics.read(partition, None, now)
                self._replicas.heard(writer, replica, appended_ms)
                self._log.read_probe(partition, writer, offset, appended_ms, now)
            case RecordRead(partition, key, _, Stored() as stored):
                self._metrics.read(partition, stored.record, now)
                self._log.read(partition, key, stored, now)
            case GroupRecordRead(partition, group, group_record, value):
                self._metrics.read_group(partition, now)
                if not self._log.read_group(partition, group, group_record, value):
                    why = f"{group.name} of {group.group_id}: no valid MAC"
                    self._ignore(partition, group_record.offset, Ignored.MAC, why)
            case RecordUnknown(partition, unknown, stands_for, offset, appended_ms, why):
                self._ignore(partition, offset, Ignored.FORMAT, why)
                if isinstance(unknown, GroupKey):
                    self._log.read_unknown_group(partition, unknown, offset, appended_ms)
                elif stands_for is not None:
                    self._log.read(partition, unknown, stands_for, now)
            case RecordIgnored(partition, offset, ignored, why, prober):
                self._ignore(partition, offset, ignored, why)
                if prober is None:
                    self._log.read_to(partition, offset + 1, now)
                else:
                    self._log.skip_probe(partition, prober, offset, now)

    def _ignore(self, partition: int, offset: int, reason: Ignored, why: str) -> None:
        self.ignored[reason] += 1
        self._metrics.ignored(reason)
        _logger.warning(
            "a record of the member log is ignored",
            partition=partition,
            offset=offset,
            reason=reason,
            why=why,
        )
