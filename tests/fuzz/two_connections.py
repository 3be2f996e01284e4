"""Two connections of one proxy: one whose client and broker send anything, and an orderly one that must not notice.

Sessions, their shells, driver, translation, observers and what is shown of groups are the proxy's own. Bytes come from
the test instead of sockets, and time is virtual.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec
import trio
import trio.testing
from structlog.testing import capture_logs

from protocol_codecs import ApiKey
from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from proxy.config.loader import parse_policy
from proxy.config.schema import Limits
from proxy.connection.connection_ending import ConnectionEnding
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.connection.session_shell import SessionShell
from proxy.connection.translator_driver import TranslatorDriver
from proxy.groups.event_dispatcher import EventDispatcher
from proxy.groups.group_registry import GroupRegistry
from proxy.metrics.counters import HotCounter
from proxy.metrics.registry import Metrics
from proxy.session.errors import UpstreamError
from proxy.session.listener import Listener
from proxy.session.request_metrics import RequestMetrics
from proxy.session.session import ClientSession
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.write_buffer import WriteBuffer
from proxy.wire.api_versions import ApiVersionsNegotiator
from proxy.wire.broker_addresses import MapAddress
from tests.proxy.fakes import messages, wire
from translation.actions import ConnectionId, Event
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames
from translation.translator import Translator

POLICY = parse_policy(
    "fuzz",
    """
default: observe
rules:
  - {pattern: "translate-.*", mode: translate}
  - {pattern: "reject-.*", mode: reject}
  - {pattern: "share-.*", mode: observe, type: share}
  - {pattern: "streams-.*", mode: observe, type: streams}
""",
)

_METRICS = Metrics()  # one for all: to make it takes longer than a run
_STEPS_S = (0.0, 30.0, 2.0, 90.0, 2.0)
"""By then nearly every session has ended that the hostile client may have begun. Few steps: each costs a run's time."""
_GROUP, _MEMBER = "share-orderly", "somebody"
"""Of the orderly client, unknown to the other one."""


ANSWERS = 3
"""As a chunk's first byte: the broker answers what it was asked longest ago, whatever correlation id stands there."""


def run(chunks: Iterable[bytes], map_address: MapAddress, limits: Limits) -> None:
    """Give the hostile connection these chunks. The first byte says who sends the rest: the client if it is even, the
    broker if it is odd; see :data:`ANSWERS`.

    :raises AssertionError: the orderly connection has noticed, or there was an error inside the proxy.
    """

    clock = trio.testing.MockClock()

    async def both() -> None:
        proxy = _Proxy(map_address, limits)
        orderly = _OrderlyClient(proxy.connection(2))
        orderly.joins()
        hostile = proxy.connection(1)
        for chunk in chunks:
            if chunk and hostile.is_open:
                data = hostile.answering(chunk[1:]) if chunk[0] & ANSWERS == ANSWERS else chunk[1:]
                hostile.receives(data, from_broker=bool(chunk[0] & 1))
        orderly.heartbeats()
        hostile.loses_its_client()
        proxy.shows_its_groups()
        await proxy.lives_on(clock)
        hostile.loses_its_broker()
        orderly.heartbeats()
        proxy.shows_its_groups()

    with capture_logs() as lines:
        trio.run(both, clock=clock)
    for line in lines:
        if line["log_level"] == "error":
            raise AssertionError(f"inside the proxy: {line}") from line.get("exc_info")


class _Proxy:
    """What the connections of a process share."""

    def __init__(self, map_address: MapAddress, limits: Limits) -> None:
        request_metrics = RequestMetrics(_METRICS)
        topics = TopicNames()
        self._groups = GroupRegistry(POLICY)
        self._dispatcher = EventDispatcher(_METRICS, self._groups)
        self._driver = TranslatorDriver(Translator(POLICY), request_metrics, self._record, Observer(topics))
        self._listener = Listener(
            map_address,
            ApiVersionsNegotiator(allow_unknown_apis=False),
            limits,
            request_metrics,
            lambda: 0.0,
            topics,
            POLICY.rule_for,
            self._driver.passes_through,
        )

    def _record(self, event: Event) -> None:
        self._dispatcher.dispatch(event, 0)

    def connection(self, number: int) -> "_Connection":
        return _Connection(ConnectionId(number), self._driver, self._listener)

    def shows_its_groups(self) -> None:
        msgspec.json.encode(list(self._groups.views(0)))

    async def lives_on(self, clock: trio.testing.MockClock) -> None:
        """Time passes, in which sessions end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._driver.run_timers)
            nursery.start_soon(self._driver.reporter.expire_observed_members)
            for step_s in _STEPS_S:
                clock.jump(step_s)
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


class _Written:
    """Takes what the shell writes to one peer, which reads at once."""

    size = 0

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, pieces: Sequence[bytes], *, more: bool = False) -> None:
        self._data += b"".join(pieces)

    def taken(self) -> bytes:
        """What has been written since the last time."""
        data = bytes(self._data)
        self._data.clear()
        return data


class _Connection:
    """One connection, whose broker can be reached at once."""

    def __init__(self, connection_id: ConnectionId, driver: TranslatorDriver, context: Listener) -> None:
        self._id = connection_id
        self._driver = driver
        self._session = ClientSession(connection_id, "/10.0.0.1", context)
        self._ending = ConnectionEnding(connection_id, self._session, driver)
        self._shell = SessionShell(self._session, driver, self._ending, _METRICS)
        self.to_client, self.to_broker = _Written(), _Written()
        self._shell.to_client = cast("WriteBuffer", self.to_client)
        self._has_upstream = False
        self._asked: deque[int] = deque()

    @property
    def is_open(self) -> bool:
        return self._ending.cause is None

    def receives(self, data: bytes, *, from_broker: bool) -> None:
        """One side sends; what its broker has never been asked for can't come from it."""
        if not from_broker:
            self._shell.take_from_client(data)
            if self._shell.upstream_needed and self.is_open:
                self._shell.upstream_needed = False
                self._has_upstream = True
                self._shell.attach_upstream(
                    cast("WriteBuffer", self.to_broker), cast("RelayDirection", _NoSplicing), HotCounter()
                )
                self._shell.advance()
        elif self._has_upstream:
            try:
                self._shell.take_from_upstream(data)
            except UpstreamError as error:
                self._ending.end(DisconnectCause.SERVER_ERROR, str(error))

    def answering(self, frame: bytes) -> bytes:
        """A response with the correlation id of the request that the broker got first and has not been answered so."""
        for request in wire.frames(self.to_broker.taken()):
            self._asked.append(wire.correlation_id(request))
        return (
            frame[:4] + self._asked.popleft().to_bytes(4, signed=True) + frame[8:] if self._asked else frame
        )

    def loses_its_client(self) -> None:
        """The client goes; its broker stays, if the translation needs it."""
        outlives = self._session.may_outlive_client
        self._session.client_closed()
        if outlives and self._driver.knows(self._id):
            self._driver.client_disconnected(self._id)
            self._session.forget_request()

    def loses_its_broker(self) -> None:
        self._driver.upstream_lost(self._id)


class _NoSplicing:
    splices_next = False


class _OrderlyClient:
    """A share consumer. Its broker gets what it sends, and it gets what its broker answers, to the byte."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._sent = 0

    def joins(self) -> None:
        versions = wire.response(ApiKey.API_VERSIONS, 3, 0, messages.api_versions_response())
        self._connection.receives(messages.ask_versions(0), from_broker=False)
        self._connection.to_broker.taken()
        self._connection.receives(versions, from_broker=True)
        self._connection.to_client.taken()
        self.heartbeats()

    def heartbeats(self) -> None:
        self._sent += 1
        request = ShareGroupHeartbeatRequest(
            group_id=_GROUP,
            member_id=_MEMBER,
            member_epoch=self._sent - 1,
            subscribed_topic_names=("t",) if self._sent == 1 else None,
        )
        response = ShareGroupHeartbeatResponse(
            member_id=_MEMBER, member_epoch=self._sent, heartbeat_interval_ms=5000
        )
        connection = self._connection
        call = wire.request(ApiKey.SHARE_GROUP_HEARTBEAT, 1, self._sent, request)
        answer = wire.response(ApiKey.SHARE_GROUP_HEARTBEAT, 1, self._sent, response)
        connection.receives(call, from_broker=False)
        if connection.to_broker.taken() != call:
            raise AssertionError("the broker did not get what the orderly client sent")
        connection.receives(answer, from_broker=True)
        if connection.to_client.taken() != answer or not connection.is_open:
            raise AssertionError("the orderly client did not get its answer")
