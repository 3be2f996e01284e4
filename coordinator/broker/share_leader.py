"""What a node does as the leader of partitions for share groups (KIP-932): share sessions, and records in flight.

Both are in memory. What has to survive goes to the share coordinator with every acknowledgement, and is read when the
first member fetches from a share partition.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import trio

from coordinator.broker.clock import Clock
from coordinator.broker.partition_log import LEADER_EPOCH, PartitionLog
from coordinator.config import EARLIEST, CoordinatorConfig, GroupConfig, setting_of
from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    AcknowledgementBatch,
    ClosedSession,
    InFlightRecords,
    ShareSessions,
    ShareSettings,
    StateWrite,
)
from coordinator.share_state import UNINITIALIZED_START_OFFSET, PartitionState, SharePartition, ShareState
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})


class LedSharePartition:
    """A share partition whose records are in flight on this node.

    ``is_fenced`` after the leader has forgotten it: its state has gone, or somebody has changed it meanwhile.
    """

    def __init__(
        self, key: SharePartition, log: PartitionLog, state_epoch: int, in_flight: InFlightRecords
    ) -> None:
        self.key = key
        self.log = log
        self.state_epoch = state_epoch
        self.in_flight = in_flight
        self.is_fenced = False


class ShareLeader:
    """The share partitions that one node leads, and the share sessions of its connections.

    - ``find_log``: the log of a partition, by topic id and number. Raises RequestRefused if this node does not lead it.
    - ``notify``: called when records may have become available.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        *,
        share_state: ShareState,
        clock: Clock,
        find_log: Callable[[Uuid, int], PartitionLog],
        notify: Callable[[], None],
    ) -> None:
        self.sessions = ShareSessions(config.share_max_sessions)
        self._config = config
        self._group_configs: dict[str, GroupConfig] = {}
        self._share_state = share_state
        self._clock = clock
        self._find_log = find_log
        self._notify = notify
        self._led: dict[SharePartition, LedSharePartition] = {}
        self._deadline_ms: int | None = None
        """When the lock timer fires; None if it waits for locks."""
        self._changed = trio.Event()

    def lock_duration_ms(self, group_id: str) -> int:
        """Return for how long a group's records are locked."""
        return self._settings(group_id).record_lock_duration_ms

    def led(self, key: SharePartition) -> LedSharePartition:
        """Return a share partition; its state is read if nobody has fetched from it yet.

        Raises RequestRefused with UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER and UNKNOWN_SERVER_ERROR.
        """
        self._expire_locks()
        led = self._led.get(key)
        if led is None:
            log = self._find_log(key.topic_id, key.partition)
            try:
                state = self._share_state.read(key, LEADER_EPOCH, self._clock.now_ms())
            except RequestRefused as refused:
                raise _for_members(refused) from refused
            in_flight = InFlightRecords(
                self._settings(key.group_id), self._start_offset(key, state, log), state.batches
            )
            led = self._led[key] = LedSharePartition(key, log, state.state_epoch, in_flight)
        return led

    def now_ms(self) -> int:
        """Return the time of the locks."""
        return self._clock.now_ms()

    def acquired(self, led: LedSharePartition) -> None:
        """Have the locks of records expire that were just acquired."""
        self._watch(led)

    def acknowledge(
        self, key: SharePartition, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> None:
        """Apply and persist acknowledgements.

        Raises RequestRefused with INVALID_RECORD_STATE, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION if nobody has
        fetched from this share partition here, NOT_LEADER_OR_FOLLOWER if it is fenced.
        """
        self._expire_locks()
        led = self._led.get(key)
        if led is None:
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nobody fetches from it here")
        self._persist(led, led.in_flight.acknowledge(member_id, batches, self._clock.now_ms()))
        self._watch(led)
        self._notify()

    def close_session(self, group_id: str, member_id: str) -> None:
        """End a share session, if there is one; what its member has acquired is released."""
        self._release(self.sessions.close(group_id, member_id))

    def disconnected(self, connection_id: int) -> None:
        """End the share session of a connection that has ended; what its member has acquired is released at once."""
        self._release(self.sessions.disconnected(connection_id))

    def set_group_config(self, group_id: str, config: GroupConfig) -> None:
        """Apply a change of a group's settings; locks that exist keep their deadlines."""
        self._group_configs[group_id] = config
        for led in self._led.values():
            if led.key.group_id == group_id:
                led.in_flight.settings = self._settings(group_id)

    def forget_topic(self, topic_id: Uuid) -> None:
        """Forget the share partitions of a deleted topic."""
        self._forget([led for led in self._led.values() if led.key.topic_id == topic_id])

    async def run(self) -> None:
        """Release records whose locks have ended, for ever."""
        while True:
            changed = self._changed = trio.Event()
            deadlines = [led.in_flight.next_deadline_ms() for led in self._led.values()]
            self._deadline_ms = min((at for at in deadlines if at is not None), default=None)
            deadline = float("inf") if self._deadline_ms is None else self._clock.trio_time(self._deadline_ms)
            with trio.move_on_at(deadline):
                await changed.wait()
            self._expire_locks()

    def _expire_locks(self) -> None:
        """Release records whose locks have ended, if there are any."""
        now_ms = self._clock.now_ms()
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return
        self._changed.set()
        due = [
            led
            for led in self._led.values()
            if (at := led.in_flight.next_deadline_ms()) is not None and at <= now_ms
        ]
        for led in due:
            self._persist_if_possible(led, led.in_flight.expire_locks(now_ms))
        if due:
            self._notify()

    def _watch(self, led: LedSharePartition) -> None:
        """Wake the timer if the locks of a share partition end before it fires."""
        at = led.in_flight.next_deadline_ms()
        if at is not None and (self._deadline_ms is None or at < self._deadline_ms):
            self._changed.set()

    def _release(self, closed: ClosedSession | None) -> None:
        if closed is None:
            return
        for partition in closed.partitions:
            led = self._led.get(SharePartition(closed.group_id, partition.topic_id, partition.partition))
            if led is not None:
                self._persist_if_possible(led, led.in_flight.release(closed.member_id))
        if closed.is_group_empty:
            self._forget([led for led in self._led.values() if led.key.group_id == closed.group_id])
        self._notify()

    def _persist_if_possible(self, led: LedSharePartition, write: StateWrite | None) -> None:
        """Persist what no member waits for."""
        with suppress(RequestRefused):  # the share partition is forgotten, or its locks end later
            self._persist(led, write)

    def _persist(self, led: LedSharePartition, write: StateWrite | None) -> None:
        """Persist a change. Raises RequestRefused."""
        if write is None:
            return
        now_ms = self._clock.now_ms()
        try:
            self._share_state.write(
                led.key,
                state_epoch=led.state_epoch,
                leader_epoch=LEADER_EPOCH,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                batches=write.batches,
                now_ms=now_ms,
            )
        except RequestRefused as refused:
            led.in_flight.write_failed(write, now_ms)
            if refused.code in _FENCED:
                self._forget([led])
            raise _for_members(refused) from refused
        led.in_flight.written(write)

    def _forget(self, gone: Iterable[LedSharePartition]) -> None:
        for led in gone:
            led.is_fenced = True
            self._led.pop(led.key, None)

    def _start_offset(self, key: SharePartition, state: PartitionState, log: PartitionLog) -> int:
        """Return where a share partition begins: as its state says, else by ``share.auto.offset.reset``."""
        if state.start_offset != UNINITIALIZED_START_OFFSET:
            return state.start_offset
        reset = setting_of(self._config, self._group_configs.get(key.group_id), "share_auto_offset_reset")
        return log.start_offset if reset == EARLIEST else log.next_offset

    def _settings(self, group_id: str) -> ShareSettings:
        group = self._group_configs.get(group_id)
        return ShareSettings(
            delivery_count_limit=int(setting_of(self._config, group, "share_delivery_count_limit")),
            record_lock_duration_ms=int(setting_of(self._config, group, "share_record_lock_duration_ms")),
            max_record_locks=int(setting_of(self._config, group, "share_partition_max_record_locks")),
            renew_enabled=bool(setting_of(self._config, group, "share_renew_acknowledge_enable")),
        )


def _for_members(refused: RequestRefused) -> RequestRefused:
    """Return the error that members get for an error of the share coordinator."""
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER if refused.code in _FENCED else ErrorCode.UNKNOWN_SERVER_ERROR
    return RequestRefused(code, refused.message)
