"""Runs one coordinator with a clock: requests wait here for their answers, and timers fire."""

from collections.abc import Callable

import trio

from coordinator.broker.clock import Clock
from coordinator.config import CoordinatorConfig, GroupConfig
from coordinator.errors import BrokenInvariant
from coordinator.group_coordinator import GroupCoordinator
from coordinator.handlers.refusal import refusal
from coordinator.image import MetadataImage
from coordinator.log.batches import RecordLog
from coordinator.metrics.sensors import Sensors
from coordinator.shard import Call, EndOffset, Reply
from coordinator.share_state import ShareState
from coordinator.uuids import UuidSource
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message


class _Waiting:
    """A request that has not been answered yet."""

    def __init__(self) -> None:
        self.event = trio.Event()
        self.response: Message | None = None


class ShardHost:
    """One shard of the groups, on one node at a time."""

    def __init__(
        self,
        number: int,
        node_id: int,
        *,
        config: CoordinatorConfig,
        log: RecordLog,
        uuids: UuidSource,
        clock: Clock,
        image: MetadataImage,
        sensors: Sensors,
        share_state: ShareState,
        end_offset: EndOffset,
    ) -> None:
        self.number = number
        self.node_id = node_id
        self.is_loading = False
        self._config = config
        self._log = log
        self._uuids = uuids
        self._clock = clock
        self._sensors = sensors
        self._share_state = share_state
        self._end_offset = end_offset
        self._waiting: dict[int, _Waiting] = {}
        self._last_request_id = 0
        self._changed = trio.Event()
        self._group_configs: dict[str, GroupConfig] = {}
        self.coordinator = self._loaded(image)

    async def call(self, request: Message, version: int, client_id: str, client_host: str) -> Message:
        """Send a request to the coordinator and wait for its answer."""
        if self.is_loading:
            return refusal(request, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._last_request_id += 1
        request_id = self._last_request_id
        waiting = self._waiting[request_id] = _Waiting()
        call = Call(request_id, version, client_id, client_host)
        try:
            try:
                self._let(lambda now_ms: self.coordinator.handle(request, call, now_ms))
            except BrokenInvariant:
                if not waiting.event.is_set():
                    return refusal(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
            await waiting.event.wait()
        finally:
            del self._waiting[request_id]
            self.coordinator.forget(request_id)
        if waiting.response is None:
            return refusal(request, version, ErrorCode.NOT_COORDINATOR)
        return waiting.response

    async def run(self) -> None:
        """Fire the coordinator's timers, for ever."""
        while True:
            changed = self._changed = trio.Event()
            deadline_ms = self.coordinator.next_deadline_ms()
            deadline = float("inf") if deadline_ms is None else self._clock.trio_time(deadline_ms)
            with trio.move_on_at(deadline):
                await changed.wait()
            self.advance()

    def advance(self) -> None:
        """Fire the timers that are due, and hand out the answers that others have caused."""
        self._let(self.coordinator.advance)

    def update_image(self, image: MetadataImage) -> None:
        """Apply a change of the cluster's topics."""
        self._let(lambda now_ms: self.coordinator.update_image(image, now_ms))

    def set_group_config(self, group_id: str, config: GroupConfig) -> None:
        """Apply a change of a group's settings."""
        self._group_configs[group_id] = config
        self.coordinator.set_group_config(group_id, config)

    def move_to(self, node_id: int) -> None:
        """Move to another node: stop, answer the waiting requests, and load the log there."""
        self.unload()
        self.node_id = node_id
        self.coordinator = self._loaded(self.coordinator.shard.image)
        self._changed.set()

    def unload(self) -> None:
        """Stop; waiting requests are answered NOT_COORDINATOR."""
        self._deliver(self.coordinator.unload())
        for waiting in self._waiting.values():
            waiting.event.set()

    def _loaded(self, image: MetadataImage) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self._config,
            uuids=self._uuids,
            log=self._log,
            image=image,
            share_state=self._share_state,
            end_offset=self._end_offset,
        )
        for group_id, config in self._group_configs.items():
            coordinator.set_group_config(group_id, config)
        began_ms = self._clock.elapsed_ms()
        coordinator.load(self._clock.now_ms())
        self._sensors.loaded(began_ms, self._clock.elapsed_ms())
        return coordinator

    def _let(self, work: Callable[[int], list[Reply]]) -> None:
        """Let the coordinator work at the current time, and hand out its answers. Raises BrokenInvariant."""
        self._sensors.work_begins(self._clock.elapsed_ms())
        try:
            replies = work(self._clock.now_ms())
        finally:
            ended_ms = self._clock.elapsed_ms()
            self._sensors.work_ended(ended_ms)
            self._sensors.take(self.coordinator.shard.activity, ended_ms)
        self._deliver(replies)

    def _deliver(self, replies: list[Reply]) -> None:
        for reply in replies:
            waiting = self._waiting.get(reply.request_id)
            if waiting is not None:  # else its client has gone
                waiting.response = reply.response
                waiting.event.set()
        self._changed.set()
