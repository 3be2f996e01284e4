"""Drives the member log of this process: what its client reads goes in, what it says is written or handed on."""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import structlog
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from proxy.config.fleet import Fleet, Property
from proxy.fleet.broker_settings import migration_policy
from proxy.fleet.log_client import LogClient
from proxy.fleet.log_events import (
    AccessLost,
    EndReached,
    GroupRecordRead,
    LogEvent,
    PartitionLost,
    ReadEvent,
    RecordIgnored,
    RecordRead,
    RecordUnknown,
    WriteFailed,
)
from proxy.fleet.log_metrics import LogMetrics
from proxy.fleet.reader_watch import ReaderWatch
from proxy.fleet.refusals import MemberLogRefused, TopicRefused
from proxy.fleet.topic import TopicIdentity, identify_topic, prepare_topic, when_known
from proxy.metrics.registry import Metrics
from translation.fleet.counting import Stored
from translation.fleet.group_mac import GroupMac
from translation.fleet.group_records import GroupKey
from translation.fleet.member_log import MemberLog
from translation.fleet.outputs import FleetSettings, Health, HealthChanged, Output, WriteRecord
from translation.fleet.records import Ignored
from translation.fleet.replicas import Replica, Replicas

READY_WITHIN_S = 60.0
"""A process that has not read the log by then is ready all the same, and serves only members that are new."""

_REPLACE_EVERY_S = 5.0
"""A producer is replaced at most so often, so that an outage leaves few keys in the log."""
_LONGEST_WHY = 300
_CHECK_EVERY_S = 10.0
"""Whether the topic is still the same: librdkafka goes on silently with another one of its name."""

_logger = structlog.get_logger()


class FleetDriver:
    """The member log of this process on its topic.

    Made in trio, before what it reports to; :meth:`attach` connects the two.

    :raises MemberLogRefused: librdkafka refuses the properties.
    """

    def __init__(
        self,
        fleet: Fleet,
        properties: dict[str, Property],
        *,
        server: str = "",
        probe_s: float = FleetSettings().probe_s,
        mac_key: bytes | None = None,
    ) -> None:
        self._fleet = fleet
        self._properties = properties
        try:
            self._client = LogClient(fleet, properties, self._handle, server)
            self._admin = self._new_admin()
        except KafkaException as error:
            raise MemberLogRefused(f"`fleet.kafka`: {error.args[0].str()}") from None
        settings = FleetSettings(
            partitions=fleet.partitions,
            server=server,
            record_format=fleet.record_format,
            expires=fleet.expires,
            resumes=fleet.resumes,
            most_members=fleet.max_members,
            members_of_group=fleet.max_group_members,
            max_bytes=fleet.max_bytes,
            probe_s=probe_s,
        )
        mac = None if mac_key is None else GroupMac(mac_key)
        self.log = MemberLog(settings, self._client.writer, trio.current_time(), mac)
        self.replicas = Replicas()
        """Who writes the log, for people."""
        self.refused: str | None = None
        """Why the log can't be used any more until this process is started again, or None."""
        self.ignored: Counter[Ignored] = Counter()
        """The records of the topic that were skipped since the start, by why."""
        self._tell: Callable[[list[Output]], None] = lambda _outputs: None
        self._on_refused: Callable[[str], None] = lambda _reason: None
        self.on_migration_policy: Callable[[str | None], None] = lambda _policy: None
        """Is told the brokers' ``group.consumer.migration.policy``, None if the account may not know it."""
        self._metrics = LogMetrics(Metrics(), self.log, self.replicas, self.replica)
        self._away = set(range(fleet.partitions))
        """Partitions that are not ready."""
        self._reader_watch = ReaderWatch(fleet.partitions, trio.current_time())
        self._scope = trio.CancelScope()
        self._replaced_at = -math.inf
        self._has_failed = False
        self._changed = trio.Event()
        self.replayed = trio.Event()
        """Set when every partition has been read to its end and written to."""

    def _new_admin(self) -> AdminClient:
        return AdminClient({**self._properties, "log_level": 0})

    def attach(
        self, tell: Callable[[list[Output]], None], on_refused: Callable[[str], None], metrics: Metrics
    ) -> None:
        """Report from now on: ``tell`` gets what the member log says, but for what is written and how it does.

        ``on_refused`` is called once, with the reason, if the log can't be used until the process is started again.
        """
        self._tell = tell
        self._on_refused = on_refused
        self._metrics = LogMetrics(metrics, self.log, self.replicas, self.replica)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Prepare the topic, start to read it, and go on until :meth:`stop` is called.

        What was written is then flushed, and both clients are closed, within four seconds.

        :raises MemberLogRefused: the topic or the account is not as it has to be, or no broker answers.
        """
        try:
            with self._scope:
                identity = await self._start()
                task_status.started()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_topic, identity)
                    nursery.start_soon(self._ask_migration_policy)
                    await self._keep_time()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._client.stop)

    async def _start(self) -> TopicIdentity:
        try:
            identity = await trio.to_thread.run_sync(
                prepare_topic, self._admin, self._fleet, abandon_on_cancel=True
            )
            ends = await trio.to_thread.run_sync(when_known, self._client.ends)
        except (KafkaException, TimeoutError) as error:
            why = error.args[0].str() if isinstance(error, KafkaException) else "no answer in time"
            if "security.protocol" not in self._properties:  # brokers do not say that they ask for it
                why += ". They were asked without TLS and without an account, since `security.protocol` is not set"
            raise MemberLogRefused(
                f"the brokers of `fleet.kafka` ({self._fleet.kafka.get('bootstrap.servers', '')}) can't be used: {why}"
            ) from None
        self._client.start()
        self._reader_watch = ReaderWatch(self._fleet.partitions, trio.current_time())
        for partition, end in ends.items():
            self.log.replay_to(partition, end, trio.current_time())
        self.carry_out()
        return identity

    def stop(self) -> None:
        """Make :meth:`run` flush what was written, and return."""
        self._scope.cancel()

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
        if not self.log.has_changed:
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
            self._tell(said)

    def _write(self, write: WriteRecord) -> None:
        if self.refused is None:
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
                if self.refused is not None:
                    return
                self._handle_one(event, now)
        except Exception as error:  # noqa: BLE001  a bug here ends the use of the log, never the process
            self._fail(error)
        self._metrics.count_bounds()
        self._changed.set()
        self.carry_out()

    def _handle_one(self, event: LogEvent, now: float) -> None:
        if not isinstance(event, WriteFailed | AccessLost):
            self._reader_watch.heard(event.partition, now)
        match event:
            case EndReached(partition, position):
                self.log.read_to(partition, position, now)
            case PartitionLost(partition, end):
                _logger.warning("the member log is read again", partition=partition)
                self.log.lose(partition, self._client.replace_writer(), now)
                self.log.replay_to(partition, end, now)
            case WriteFailed(writer, reason):
                if writer == self._client.writer:
                    _logger.warning("writing the member log failed", reason=reason)
                    self._has_failed = True
            case AccessLost(reason):
                self._refuse(reason)
            case _:
                self._handle_any_record(event, now)

    def _handle_any_record(self, event: ReadEvent, now: float) -> None:
        """Handle a record. One that meets a bug here is skipped: it would be there after a restart too."""
        offset = event.stored.offset if isinstance(event, GroupRecordRead) else event.offset
        try:
            self._handle_record(event, now)
        except Exception as error:
            _logger.exception("a record met an unexpected error")
            self._metrics.failed()
            self._ignore(event.partition, offset, Ignored.ERROR, repr(error)[:_LONGEST_WHY])
            self.log.read_to(event.partition, offset + 1, now)

    def _handle_record(self, event: ReadEvent, now: float) -> None:
        match event:
            case RecordRead(partition, _, writer, None, offset, appended_ms, replica):
                self._metrics.read(partition, None, now)
                self.replicas.heard(writer, replica, appended_ms)
                self.log.read_probe(partition, writer, offset, appended_ms, now)
            case RecordRead(partition, key, _, Stored() as stored):
                self._metrics.read(partition, stored.record, now)
                self.log.read(partition, key, stored, now)
            case GroupRecordRead(partition, group, group_record, value):
                self._metrics.read_group(partition, now)
                if not self.log.read_group(partition, group, group_record, value):
                    why = f"{group.name} of {group.group_id}: no valid MAC"
                    self._ignore(partition, group_record.offset, Ignored.MAC, why)
            case RecordUnknown(partition, unknown, stands_for, offset, appended_ms, why):
                self._ignore(partition, offset, Ignored.FORMAT, why)
                if isinstance(unknown, GroupKey):
                    self.log.read_unknown_group(partition, unknown, offset, appended_ms)
                elif stands_for is not None:
                    self.log.read(partition, unknown, stands_for, now)
            case RecordIgnored(partition, offset, ignored, why):
                self._ignore(partition, offset, ignored, why)
                self.log.read_to(partition, offset + 1, now)

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

    def _refuse(self, reason: str) -> None:
        """From now on the log counts as away: nothing is written, and nothing that is read counts."""
        if self.refused is None:
            _logger.error("the member log can't be used until this process is started again", reason=reason)
            self.refused = reason
            self._metrics.refused()
            self._on_refused(f"the member log can't be used: {reason}")

    def _fail(self, error: Exception) -> None:
        _logger.error("the member log failed", exc_info=error)
        self._metrics.failed()
        self._refuse("an unexpected error; the log has it")

    async def _keep_time(self) -> None:
        while True:
            now = trio.current_time()
            if self._has_failed and self._replaced_at + _REPLACE_EVERY_S <= now:
                self._has_failed, self._replaced_at = False, now
                self.log.replace_writer(self._client.replace_writer(), now)
            if self._reader_watch.next_deadline() <= now and self.refused is None:
                self._replace_reader(now)
            try:
                if self.log.next_deadline() <= now:
                    self.log.handle_time(now)
            except Exception as error:  # noqa: BLE001  likewise
                self._fail(error)
                return
            self.carry_out()
            self._changed = trio.Event()
            deadline = self.log.next_deadline()
            if self.refused is None:
                deadline = min(deadline, self._reader_watch.next_deadline())
            if self._has_failed:
                deadline = min(deadline, self._replaced_at + _REPLACE_EVERY_S)
            with trio.move_on_at(max(deadline, now + 0.001)):
                await self._changed.wait()

    def _replace_reader(self, now: float) -> None:
        _logger.warning("the member log's reader is replaced: it reads nothing")
        self._reader_watch.replaced(now)
        self._client.replace_reader()
        self._metrics.reader_replaced()

    async def _ask_migration_policy(self) -> None:
        policy = await trio.to_thread.run_sync(migration_policy, self._admin, abandon_on_cancel=True)
        _logger.info("the brokers' migration policy", policy=policy or "not known")
        self.on_migration_policy(policy)

    async def _watch_topic(self, identity: TopicIdentity) -> None:
        while self.refused is None:
            await trio.sleep(_CHECK_EVERY_S)
            try:
                is_another = await trio.to_thread.run_sync(self._is_another, identity, abandon_on_cancel=True)
            except TopicRefused as refused:
                self._refuse(str(refused))
            else:
                if is_another:
                    self._refuse(
                        f"the topic {self._fleet.topic} is another one than at the start; start this process again"
                    )

    def _is_another(self, identity: TopicIdentity) -> bool:
        """In a thread: neither the brokers' answer nor the end of an admin client is waited for in trio."""
        try:
            return identify_topic(self._admin, self._fleet) != identity
        except (KafkaException, TimeoutError):
            with suppress(KafkaException):  # a certificate that can't be read just now, for example
                self._admin = self._new_admin()  # the one before may be stuck, as a reader may
            return False  # the log is away, which the member log notices by itself
