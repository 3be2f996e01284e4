"""Shows the member log of this process as metrics (``epochgate_fleet_*``)."""

from functools import partial

import trio

from proxy.metrics.bounds import Bound
from proxy.metrics.registry import Metrics
from translation.member_log.fleet_counts import FleetCounts, MemberState, count_fleet
from translation.member_log.formats import FORMATS
from translation.member_log.group_records import is_group_key
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Decision, Health, WriteRecord
from translation.member_log.records import Ignored, Kind, MemberRecord
from translation.member_log.replicas import Replica, Replicas

_PROBE, _GROUP = "probe", "group"
_KINDS = (*(str(kind) for kind in Kind), _PROBE, _GROUP)


class LogMetrics:
    """Counts what is read and written, and has the gauges ask the member log at each scrape."""

    def __init__(self, metrics: Metrics, log: MemberLog, replicas: Replicas, own: Replica) -> None:
        self._metrics = metrics
        self._log = log
        self._replicas = replicas
        self._own = own
        self._claims_refused = 0
        self._forgotten = 0
        self._counted: tuple[tuple[int, ...], FleetCounts] | None = None
        """The fleet, and what was read when it was counted: a scrape asks several times."""
        self._is_refused = False
        self._began = trio.current_time()
        self._read_at = [self._began] * log.settings.partitions
        records = metrics.fleet_records
        self._read = {kind: records.labels(kind, "read") for kind in _KINDS}
        self._written = {kind: records.labels(kind, "written") for kind in _KINDS}
        self._ignored = {one: metrics.fleet_ignored.labels(one) for one in Ignored}
        self._decisions = {one: metrics.fleet_verdicts.labels(one) for one in Decision}
        metrics.fleet_verdicts.before_collect = self._show_decisions
        metrics.fleet_away.set_function(self._away)
        metrics.fleet_unresolved.set_function(log.unresolved)
        metrics.fleet_oldest_unresolved.set_function(
            lambda: log.oldest_unresolved_s(trio.current_time()) if trio.lowlevel.in_trio_run() else 0.0
        )
        metrics.fleet_newest_age.set_function(
            lambda: trio.current_time() - min(self._read_at) if trio.lowlevel.in_trio_run() else 0.0
        )
        metrics.fleet_expires.set_function(lambda: log.settings.expires)
        metrics.fleet_members_here.set_function(lambda: self._counts().here)
        for state in MemberState:
            metrics.fleet_members.labels(state).set_function(partial(self._members, state))
        metrics.fleet_replicas.labels("active").set_function(lambda: self._counts().heard)
        metrics.fleet_replicas.labels("silent").set_function(lambda: self._counts().silent)

    def read(self, partition: int, record: MemberRecord | None, now: float) -> None:
        """Count a record that was read in a partition; None for a probe."""
        self._read_at[partition] = now
        self._read[_PROBE if record is None else record.kind].value += 1

    def read_group(self, partition: int, now: float) -> None:
        """Count a record of a whole group that was read in a partition."""
        self._read_at[partition] = now
        self._read[_GROUP].value += 1

    def ignored(self, reason: Ignored) -> None:
        """Count a record that is none of the member log."""
        self._ignored[reason].value += 1

    def written(self, write: WriteRecord) -> None:
        """Count a record that is written."""
        if is_group_key(write.key):
            kind = _GROUP
        else:
            kind = _PROBE if write.value is None else FORMATS[write.format].decode(write.value).kind
        self._written[kind].value += 1

    def replayed(self) -> None:
        """The log is read for the first time."""
        self._metrics.fleet_replay.set(trio.current_time() - self._began)

    def reader_replaced(self) -> None:
        """Count a consumer that was replaced because it read nothing."""
        self._metrics.fleet_reader_replacements.inc()

    def refused(self, *, is_refused: bool) -> None:
        """Whether the log can't be used."""
        self._is_refused = is_refused
        self._metrics.fleet_refused.set(is_refused)

    def wrong_settings(self, *, is_wrong: bool) -> None:
        """Whether a setting of the topic is wrong."""
        self._metrics.fleet_wrong_settings.set(is_wrong)

    def failed(self) -> None:
        """Count an unexpected exception."""
        self._metrics.internal_errors.labels("fleet").inc()

    def count_bounds(self) -> None:
        """Count the claims that were refused, and the records that were forgotten, since this was called last."""
        hits = self._metrics.bounds_hit
        hits.labels(Bound.FLEET_IDS).inc(self._log.claims_refused - self._claims_refused)
        hits.labels(Bound.FLEET_RECORDS).inc(self._log.forgotten - self._forgotten)
        self._claims_refused, self._forgotten = self._log.claims_refused, self._log.forgotten

    def _counts(self) -> FleetCounts:
        read = (*self._log.positions(), self._log.forgotten, self._replicas.newest_ms)
        if self._counted is None or self._counted[0] != read:
            self._counted = read, count_fleet(self._log, self._replicas, self._own)
        return self._counted[1]

    def _members(self, state: MemberState) -> int:
        return self._counts().members[state]

    def _show_decisions(self) -> None:
        for decision, series in self._decisions.items():
            series.value = self._log.decisions[decision]

    def _away(self) -> int:
        partitions = range(self._log.settings.partitions)
        return sum(self._is_refused or self._log.health(number) is not Health.READY for number in partitions)
