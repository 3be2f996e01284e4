"""Drives the member log of this process: what its client reads goes in, what it says is written or handed on."""

import math
from collections.abc import Callable

import structlog
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from proxy.config.fleet import Fleet, Property
from proxy.fleet.log_client import (
    AccessLost,
    EndReached,
    LogClient,
    LogEvent,
    PartitionLost,
    RecordRead,
    WriteFailed,
)
from proxy.fleet.topic import TopicIdentity, TopicRefused, identify_topic, prepare_topic
from translation.fleet.counting import Stored
from translation.fleet.member_log import MemberLog
from translation.fleet.outputs import FleetSettings, Health, HealthChanged, Output, WriteRecord

READY_WITHIN_S = 60.0
"""A process that has not read the log by then is ready all the same, and serves only members that are new."""

_REPLACE_EVERY_S = 5.0
"""A producer is replaced at most so often, so that an outage leaves few keys in the log."""
_CHECK_EVERY_S = 10.0
"""Whether the topic is still the same: librdkafka goes on silently with another one of its name."""

_logger = structlog.get_logger()


class FleetDriver:
    """The member log of this process on its topic. ``tell`` gets what the member log says, but for what is written."""

    def __init__(
        self,
        fleet: Fleet,
        properties: dict[str, Property],
        tell: Callable[[Output], None],
        *,
        server: str = "",
    ) -> None:
        self._fleet = fleet
        self._properties = properties
        self._tell = tell
        self._client = LogClient(fleet, properties, self._handle)
        settings = FleetSettings(partitions=fleet.partitions, server=server, expires=fleet.expires)
        self.log = MemberLog(settings, self._client.writer, trio.current_time())
        self.refused: str | None = None
        """Why the log can't be used any more until this process is started again, or None."""
        self._replaced_at = -math.inf
        self._has_failed = False
        self._changed = trio.Event()
        self.replayed = trio.Event()
        """Set when every partition has been read to its end and written to."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Prepare the topic, start to read it, and go on until cancelled.

        :raises TopicRefused: the topic or the account is not as it has to be.
        :raises KafkaException: no broker answers.
        """
        try:
            admin = AdminClient({**self._properties, "log_level": 0})
            identity = await trio.to_thread.run_sync(prepare_topic, admin, self._fleet)
            ends = await trio.to_thread.run_sync(self._client.ends)
            self._client.start()
            for partition, end in ends.items():
                self.log.replay_to(partition, end, trio.current_time())
            self.carry_out()
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_topic, admin, identity)
                await self._keep_time()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._client.stop)

    async def wait_ready(self) -> bool:
        """Wait until the log is read, or for :data:`READY_WITHIN_S`. Return whether it is read."""
        with trio.move_on_after(READY_WITHIN_S):
            await self.replayed.wait()
        return self.replayed.is_set()

    def carry_out(self) -> None:
        """Do what the member log says; to be called after each of its inputs."""
        for output in self.log.outputs():
            if isinstance(output, WriteRecord):
                if self.refused is None:
                    self._client.write(output)
                continue
            if isinstance(output, HealthChanged) and output.health is Health.READY:
                partitions = range(self._fleet.partitions)
                if all(self.log.health(partition) is Health.READY for partition in partitions):
                    self.replayed.set()
            self._tell(output)
        self._changed.set()

    def _handle(self, events: list[LogEvent]) -> None:
        now = trio.current_time()
        for event in events:
            if self.refused is not None:
                return
            self._handle_one(event, now)
        self.carry_out()

    def _handle_one(self, event: LogEvent, now: float) -> None:
        match event:
            case RecordRead(partition, _, writer, None, offset, appended_ms):
                self.log.read_probe(partition, writer, offset, appended_ms, now)
            case RecordRead(partition, key, _, Stored() as stored):
                self.log.read(partition, key, stored, now)
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

    def _refuse(self, reason: str) -> None:
        """From now on the log counts as away: nothing is written, and nothing that is read counts."""
        if self.refused is None:
            _logger.error("the member log can't be used", reason=reason)
            self.refused = reason

    async def _keep_time(self) -> None:
        while True:
            now = trio.current_time()
            if self._has_failed and self._replaced_at + _REPLACE_EVERY_S <= now:
                self._has_failed, self._replaced_at = False, now
                self.log.replace_writer(self._client.replace_writer(), now)
            if self.log.next_deadline() <= now:
                self.log.handle_time(now)
            self.carry_out()
            self._changed = trio.Event()
            deadline = self.log.next_deadline()
            if self._has_failed:
                deadline = min(deadline, self._replaced_at + _REPLACE_EVERY_S)
            with trio.move_on_at(max(deadline, now + 0.001)):
                await self._changed.wait()

    async def _watch_topic(self, admin: AdminClient, identity: TopicIdentity) -> None:
        while True:
            await trio.sleep(_CHECK_EVERY_S)
            try:
                found = await trio.to_thread.run_sync(identify_topic, admin, self._fleet)
            except TopicRefused as refused:
                self._refuse(str(refused))
            except (KafkaException, TimeoutError):
                continue  # the log is away, which the member log notices by itself
            else:
                if found != identity:
                    self._refuse(
                        f"the topic {self._fleet.topic} is another one than at the start; start this process again"
                    )
