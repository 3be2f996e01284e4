"""Drives the member log of this process: what its client reads goes in, what it decides is written or handed on, and
``/readyz`` is 503 while the log can't be used.

What ends the use of the log from outside (a crash of the client, a right withdrawn, another topic) ends one process of
the client, and after a pause the next one begins. Only an error of our own ends it for good.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import structlog
import trio

from proxy.config.fleet import Fleet, Property
from proxy.member_log.log_client import LogClient, NotReached
from proxy.member_log.log_events import (
    AccessLost,
    EndReached,
    GroupRecordRead,
    LogEvent,
    Noted,
    PartitionLost,
    PolicyRead,
    RecordIgnored,
    RecordRead,
    RecordUnknown,
    SettingsRead,
    WriteFailed,
)
from proxy.member_log.log_messages import Begun
from proxy.member_log.log_metrics import LogMetrics
from proxy.member_log.reader_watch import ReaderWatch
from proxy.member_log.record_handling import RecordHandler
from proxy.member_log.refusals import MemberLogRefused
from proxy.member_log.writer_watch import NOT_KNOWN_YET, WriterWatch, watch
from proxy.metrics.registry import Metrics
from proxy.runtime.pauses import Pauses
from translation.member_log.group_mac import GroupMac
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Health, HealthChanged, Output, WriteRecord
from translation.member_log.records import Ignored
from translation.member_log.replicas import Replica, Replicas
from translation.member_log.settings import FleetSettings

READY_WITHIN_S = 60.0
"""A process that has not read the log by then is ready all the same, and serves only members that are new."""

_REPLACE_EVERY_S = 5.0
"""A producer is replaced at most so often, so that an outage leaves few keys in the log."""

_logger = structlog.get_logger()


class Reports(msgspec.Struct, frozen=True):
    """Who is told: what the member log says, but for what is written; why it can't be used, None when it can be again;
    and the brokers' ``group.consumer.migration.policy``, None if the account may not know it.
    """

    said: Callable[[list[Output]], None] = lambda _outputs: None
    on_refused: Callable[[str | None], None] = lambda _reason: None
    on_migration_policy: Callable[[str | None], None] = lambda _policy: None


_NOT_RUN = Reports()
"""Before :meth:`FleetDriver.run` nothing is written or reported: it waits."""


class FleetDriver:
    """The member log of this process on its topic. Made in trio, before what it reports to."""

    def __init__(
        self,
        fleet: Fleet,
        properties: dict[str, Property],
        metrics: Metrics,
        *,
        server: str = "",
        probe_s: float = FleetSettings().probe_s,
        session_timeouts_ms: tuple[int, int] = FleetSettings().session_timeouts_ms,
        mac_key: bytes | None = None,
    ) -> None:
        self._fleet = fleet
        self._is_plain = "security.protocol" not in properties
        crashed = metrics.kafka_process_crashes.labels("member log").inc
        self._client = LogClient(fleet, properties, self._handle, server, crashed)
        self._settings = FleetSettings(
            partitions=fleet.partitions,
            server=server,
            record_format=fleet.record_format,
            expires=fleet.expires is not False,
            resumes=fleet.resumes,
            most_members=fleet.max_members,
            members_of_group=fleet.max_group_members,
            max_bytes=fleet.max_bytes,
            probe_s=probe_s,
            session_timeouts_ms=session_timeouts_ms,
        )
        mac = None if mac_key is None else GroupMac(mac_key)
        self.log = MemberLog(self._settings, self._client.writer, trio.current_time(), mac)
        self._wrong_settings: str | None = None
        self._why_not_all_write: str | None = None
        if fleet.expires == "auto":
            self._why_not_all_write = NOT_KNOWN_YET
            self.log.trust_silence(all_write=False)
        self.replicas = Replicas()
        """Who writes the log, for people."""
        self.refused: str | None = None
        """Why the log can't be used now, or None. It is tried again, but for an error of our own."""
        self._reports = _NOT_RUN
        self._metrics = LogMetrics(metrics, self.log, self.replicas, self.replica)
        self._records = RecordHandler(self.log, self.replicas, self._metrics)
        self.ignored: Counter[Ignored] = self._records.ignored
        """The records of the topic that were skipped since the start, by why."""
        self._away = set(range(fleet.partitions))
        """Partitions that are not ready."""
        self._reader_watch = ReaderWatch(fleet.partitions, trio.current_time())
        self._scope = trio.CancelScope()
        self._replaced_at = -math.inf
        self._has_failed = False
        self._is_cut_off = False
        """Whether nothing is read or written until the next process of the client."""
        self._is_broken = False
        """Whether that has no end: an error of our own."""
        self._unheard: set[int] = set()
        """Partitions of which nothing was read since the client's last process began."""
        self._pauses = Pauses()
        self._changed = trio.Event()
        self.replayed = trio.Event()
        """Set when every partition has been read to its end and written to."""

    async def run(
        self,
        said: Callable[[list[Output]], None],
        on_refused: Callable[[str | None], None],
        on_migration_policy: Callable[[str | None], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Prepare the topic, start to read it, and go on until :meth:`stop` is called. See :class:`Reports`.

        What was written is then flushed, and the client's process ended, within four seconds.

        :raises MemberLogRefused: the topic or the account is not as it has to be, or no broker answers.
        """
        self._reports = Reports(said, on_refused, on_migration_policy)
        try:
            with self._scope:
                await self._start()
                task_status.started()
                async with trio.open_nursery() as nursery:
                    if (names := self._fleet.replica_names) is not None and names.own_address is not None:
                        nursery.start_soon(
                            watch, names.every, names.writing, names.own_address, self._note_writers
                        )
                    nursery.start_soon(self._keep_client)
                    await self._keep_time()
        finally:
            await self._client.close()

    async def _start(self) -> None:
        try:
            begun = await self._client.begin()
        except NotReached as error:
            why = str(error)
            if self._is_plain:  # brokers do not say that they ask for it
                why += ". They were asked without TLS and without an account, since `security.protocol` is not set"
            raise MemberLogRefused(
                f"the brokers of `fleet.kafka` ({self._fleet.kafka.get('bootstrap.servers', '')}) can't be used: {why}"
            ) from None
        if begun.wrong is not None:
            raise MemberLogRefused(begun.wrong)
        self._client.begin_with(begun.topic_id)
        self._replay(begun)
        self.carry_out()

    async def _keep_client(self) -> None:
        """Use the client's process, and after its end another one, for ever."""
        while True:
            self._pauses.began(trio.current_time())
            why = await self._client.serve()
            if self._is_broken:
                return
            if not self._is_cut_off:
                self._cut_off()
                _logger.error("the process of the member log's Kafka client has ended", reason=why)
            while not await self._begin_again():
                pass

    async def _begin_again(self) -> bool:
        await trio.sleep(self._pauses.next(trio.current_time()))
        try:
            begun = await self._client.begin()
        except MemberLogRefused as refused:
            self._refuse(str(refused))
            return False
        except NotReached as error:
            _logger.warning("the member log's Kafka client can't begin", reason=str(error))
            return False
        try:
            self._note_settings(begun.wrong)
            self._unheard = set(range(self._fleet.partitions))
            is_another = self._client.begin_with(begun.topic_id)
            self._is_cut_off = False
            if is_another:
                self._lose_all(begun)
            else:
                self._reader_watch.replaced(trio.current_time())
                self.log.replace_writer(self._client.replace_writer(), trio.current_time())
            self.carry_out()
        except Exception as error:  # noqa: BLE001  as in _handle
            self._fail(error)
        return True

    def _lose_all(self, begun: Begun) -> None:
        """The topic is another one, and read from its beginning."""
        _logger.warning("the member log is read again: the topic is another one")
        for partition in range(self._fleet.partitions):
            self.log.lose(partition, self._client.replace_writer(), trio.current_time())
        self._replay(begun)

    def _replay(self, begun: Begun) -> None:
        self._reader_watch = ReaderWatch(self._fleet.partitions, trio.current_time())
        for partition, end in begun.ends.items():
            self.log.replay_to(partition, end, trio.current_time())

    def stop(self) -> None:
        """Make :meth:`run` flush what was written, and return."""
        self._scope.cancel()

    def set_account(self, properties: Mapping[str, Property]) -> None:
        """Have the client authenticate with the user and password in these properties from now on."""
        self._client.set_account(properties)

    @property
    def warning(self) -> str | None:
        """Why no member is expired although ``fleet.expires`` says so: which settings of the topic are wrong, and what
        mends them; or which replicas may not write the log. None if silent members are expired.
        """
        return self._wrong_settings or self._why_not_all_write

    @property
    def replica(self) -> Replica:
        """This process, as its probes name it."""
        return self._client.replica

    async def wait_ready(self) -> bool:
        """Wait until the log is read, or for :data:`READY_WITHIN_S`. Return whether it is read."""
        with trio.move_on_after(READY_WITHIN_S):
            await self.replayed.wait()
        return self.replayed.is_set()

    def carry_out(self) -> None:
        """Do what the member log says; to be called after each of its inputs. It costs little if there is nothing."""
        if not self.log.has_changed or self._reports is _NOT_RUN:
            return
        said: list[Output] = []
        for output in self.log.outputs():
            if isinstance(output, WriteRecord):
                self._write(output)
            elif isinstance(output, HealthChanged):
                self._note_health(output)
                said.append(output)
            else:
                said.append(output)
        self._metrics.count_bounds()
        self._changed.set()
        if said:
            self._reports.said(said)

    def _write(self, write: WriteRecord) -> None:
        if not self._is_cut_off:
            self._client.write(write)
            self._metrics.written(write)

    def _note_health(self, changed: HealthChanged) -> None:
        self._reader_watch.changed(changed.partition, changed.health, trio.current_time())
        was_away = bool(self._away)
        if changed.health is Health.READY:
            self._away.discard(changed.partition)
        else:
            self._away.add(changed.partition)
        if was_away == bool(self._away):
            return
        if self._away:
            _logger.warning("the member log is away", partition=changed.partition)
        else:
            _logger.info("the member log is ready")
            if not self.replayed.is_set():
                self.replayed.set()
                self._metrics.replayed()

    def _handle(self, events: list[LogEvent]) -> None:
        now = trio.current_time()
        try:
            for event in events:
                if self._is_cut_off:
                    return
                self._handle_one(event, now)
            self._metrics.count_bounds()
            self.carry_out()
            self._see_whether_it_is_mended()
        except Exception as error:  # noqa: BLE001  a bug here ends the use of the log, never the process
            self._fail(error)
        self._changed.set()

    def _handle_one(self, event: LogEvent, now: float) -> None:
        match event:
            case EndReached(partition, position):
                self._heard(partition, now)
                self.log.read_to(partition, position, now)
            case PartitionLost(partition, end):
                _logger.warning("the member log is read again", partition=partition)
                self._heard(partition, now)
                self.log.lose(partition, self._client.replace_writer(), now)
                self.log.replay_to(partition, end, now)
            case RecordRead() | GroupRecordRead() | RecordUnknown() | RecordIgnored():
                self._heard(event.partition, now)
                self._records.handle(event, now)
            case _:
                self._handle_report(event)

    def _heard(self, partition: int, now: float) -> None:
        self._reader_watch.heard(partition, now)
        self._unheard.discard(partition)

    def _handle_report(self, event: WriteFailed | AccessLost | SettingsRead | PolicyRead | Noted) -> None:
        match event:
            case WriteFailed(writer, reason):
                if writer == self._client.writer:
                    _logger.warning("writing the member log failed", reason=reason)
                    self._has_failed = True
            case AccessLost(reason, pause_s):
                self._pauses.at_least(pause_s)
                self._refuse(reason)
            case SettingsRead(wrong):
                self._note_settings(wrong)
            case PolicyRead(policy):
                _logger.info("the brokers' migration policy", policy=policy or "not known")
                self._reports.on_migration_policy(policy)
            case Noted(what, reason):
                _logger.warning(what, reason=reason)

    def _refuse(self, reason: str) -> None:
        """The log counts as away: nothing is written, and nothing that is read counts, until it is tried again."""
        self._cut_off()
        self._client.end()
        if self.refused != reason:
            _logger.error("the member log can't be used", reason=reason)
            self.refused = reason
            self._metrics.refused(is_refused=True)
            self._reports.on_refused(f"the member log can't be used: {reason}")

    def _cut_off(self) -> None:
        self._is_cut_off = True
        self._has_failed = False

    def _see_whether_it_is_mended(self) -> None:
        """It is when something was read of each partition, and all are ready: what failed before was written again."""
        if self.refused is None or self._is_cut_off or self._unheard or self._away:
            return
        _logger.info("the member log can be used again")
        self.refused = None
        self._metrics.refused(is_refused=False)
        self._reports.on_refused(None)

    def _note_settings(self, wrong: str | None) -> None:
        """With wrong settings replicas may come to disagree, so nobody is expired here until they are mended."""
        if wrong == self._wrong_settings:
            return
        if wrong is None:
            _logger.info("the settings of the member log's topic are as they have to be again")
        else:
            _logger.error(
                "the member log's topic has wrong settings; nobody is expired until then", reason=wrong
            )
        self._wrong_settings = wrong
        self.log.pause_expiry(trio.current_time(), is_paused=wrong is not None)
        self._metrics.wrong_settings(is_wrong=wrong is not None)

    def _note_writers(self, watched: WriterWatch) -> None:
        """Beside a replica that does not write the log no member is expired here: its clients may be served there."""
        if watched.why_not != self._why_not_all_write:
            self._why_not_all_write = watched.why_not
            if watched.all_write:
                _logger.info("every replica writes the member log: silent members are expired from now on")
            else:
                _logger.warning("no member is expired", reason=watched.why_not)
        try:
            self.log.trust_silence(all_write=watched.all_write)
            self.carry_out()
        except Exception as error:  # noqa: BLE001  as in _handle
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        _logger.error("the member log failed", exc_info=error)
        self._metrics.failed()
        self._is_broken = True
        self._refuse("an unexpected error, which the log has; start this process again")

    async def _keep_time(self) -> None:
        while True:
            now = trio.current_time()
            try:
                self._handle_time(now)
            except Exception as error:  # noqa: BLE001  likewise
                self._fail(error)
                return
            self._changed = trio.Event()
            deadline = self.log.next_deadline()
            if not self._is_cut_off:
                deadline = min(deadline, self._reader_watch.next_deadline())
            if self._has_failed:
                deadline = min(deadline, self._replaced_at + _REPLACE_EVERY_S)
            with trio.move_on_at(max(deadline, now + 0.001)):
                await self._changed.wait()

    def _handle_time(self, now: float) -> None:
        if self._has_failed and self._replaced_at + _REPLACE_EVERY_S <= now:
            self._has_failed, self._replaced_at = False, now
            self.log.replace_writer(self._client.replace_writer(), now)
        if self._reader_watch.next_deadline() <= now and not self._is_cut_off:
            self._replace_reader(now)
        if self.log.next_deadline() <= now:
            self.log.handle_time(now)
        self.carry_out()

    def _replace_reader(self, now: float) -> None:
        _logger.warning("the member log's reader is replaced: it reads nothing")
        self._reader_watch.replaced(now)
        self._client.replace_reader()
        self._metrics.reader_replaced()
