"""Serves groups of Connect workers (:mod:`coordinator.connect_groups`) beside Kafka's APIs, if the broker is told to.

An experiment: the calls have private keys, and are answered here, before anything of Kafka's is looked at. Each shard
has a coordinator of Connect groups, on the node of the shard, with a log of its own. A group's id belongs to one type
of group at a time.
"""

from collections.abc import Callable, Collection, Sequence

import trio

from coordinator.broker.clock import Clock
from coordinator.broker.shard_host import ShardHost
from coordinator.connect_groups.coordinator import HANDLERS, ConnectGroupCoordinator, refusal
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.errors import BrokenInvariant
from coordinator.handlers import join_group
from coordinator.handlers.refusal import refusal as refuse_other
from coordinator.log.batches import RecordLog
from coordinator.shard import Call
from protocol_codecs import all_messages as m
from protocol_codecs import connect_groups as c
from protocol_codecs.codec import decode_prefix, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message


class ConnectGroupsHost:
    """The Connect groups of all shards, with a clock."""

    def __init__(
        self,
        shards: Sequence[ShardHost],
        *,
        new_log: Callable[[int], RecordLog],
        clock: Clock,
        settings: ConnectGroupSettings | None = None,
    ) -> None:
        self._shards = shards
        self._clock = clock
        self._settings = settings or ConnectGroupSettings()
        self._logs = [new_log(shard.number) for shard in shards]
        self._changed = trio.Event()
        self.coordinators = [self._loaded(shard) for shard in shards]

    async def run(self) -> None:
        """Fire the coordinators' timers, for ever."""
        while True:
            changed = self._changed = trio.Event()
            deadlines = [
                deadline_ms
                for coordinator in self.coordinators
                if (deadline_ms := coordinator.next_deadline_ms()) is not None
            ]
            with trio.move_on_at(self._clock.trio_time(min(deadlines)) if deadlines else float("inf")):
                await changed.wait()
            for shard, coordinator in zip(self._shards, self.coordinators, strict=True):
                coordinator.advance(self._clock.now_ms())
                shard.advance()

    def serve(self, shard: ShardHost, node_id: int, request: Message, call: Call) -> Message:
        """Serve a request about a group of this shard, which came to this node."""
        if shard.node_id != node_id:
            return refusal(request, ErrorCode.NOT_COORDINATOR)
        if shard.is_loading:
            return refusal(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        coordinator = self.coordinators[shard.number]
        try:
            response = coordinator.handle(request, call, self._clock.now_ms())
        except BrokenInvariant:
            if type(request) not in HANDLERS:
                return refuse_other(request, call.version, ErrorCode.UNKNOWN_SERVER_ERROR)
            return refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        shard.advance()  # what waits in a group that was converted is answered
        self._changed.set()
        return response

    def reload(self, shard: ShardHost) -> None:
        """Load the log of the shard again: it has moved to another node."""
        self.coordinators[shard.number] = self._loaded(shard)
        self._changed.set()

    def serve_other(self, shard: ShardHost, request: Message, call: Call) -> Message | None:
        """Serve a classic worker's call about a Connect group, or refuse one about a group of its id; else None."""
        coordinator = self.coordinators[shard.number]
        coordinator.advance(self._clock.now_ms())
        if not shard.is_loading and coordinator.serves(request):
            response = self.serve(shard, shard.node_id, request, call)
            if isinstance(response, m.JoinGroupResponse):
                response = join_group.in_version(response, call.version)
            return response
        error = self._refuses(coordinator.shard.groups, request)
        return None if error is None else refuse_other(request, call.version, error)

    def _refuses(self, groups: Collection[str], request: Message) -> ErrorCode | None:
        match request:
            case m.ConsumerGroupHeartbeatRequest() | m.ShareGroupHeartbeatRequest() if (
                request.group_id in groups
            ):
                return ErrorCode.GROUP_ID_NOT_FOUND
            case _:
                return None

    def _loaded(self, shard: ShardHost) -> ConnectGroupCoordinator:
        coordinator = ConnectGroupCoordinator(
            self._settings,
            log=self._logs[shard.number],
            others=shard.coordinator.shard,
        )
        coordinator.load(self._clock.now_ms())
        return coordinator


def answer(
    host: ConnectGroupsHost | None,
    shard_of: Callable[[str], ShardHost],
    node_id: int,
    client_host: str,
    frame: bytes,
) -> bytes | None:
    """Return the whole answer to a request with a private key; None for all others, and without the experiment.

    Raises CodecError.
    """
    api = c.CONNECT_APIS.get(int.from_bytes(frame[0:2], "big", signed=True)) if host is not None else None
    version = int.from_bytes(frame[2:4], "big", signed=True)
    if host is None or api is None or version != c.VERSION:
        return None
    header, start = decode_prefix(m.RequestHeader, c.REQUEST_HEADER_VERSION, frame)
    request, _ = decode_prefix(api.request, version, frame, start)
    shard = shard_of(str(getattr(request, "group_id", "")))
    call = Call(0, version, header.client_id or "", client_host)
    response = host.serve(shard, node_id, request, call)
    response_header = m.ResponseHeader(correlation_id=header.correlation_id)
    return encode(response_header, c.RESPONSE_HEADER_VERSION) + encode(response, version)
