"""A session of the proxy, with the test in the place of the client, the broker and the shell."""

from collections import deque
from collections.abc import Callable
from typing import Any

from protocol_codecs import ApiKey, Message
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from proxy.config.schema import Address, Limits
from proxy.metrics.registry import Metrics
from proxy.session.events import (
    CallReturned,
    GroupCallPassed,
    SaslSessionExpired,
    UpstreamNeeded,
)
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.listener import Listener
from proxy.session.request_metrics import RequestMetrics
from proxy.session.session import ClientSession
from proxy.wire.api_versions import ApiVersionsNegotiator
from tests.proxy.fakes import messages, wire
from translation.actions import CallId, Connection, ConnectionId, Request
from translation.policy.policy import Policy, Rule


def told(node_id: int, _host: str, _port: int) -> Address | None:
    return Address("proxy", 9100 + node_id) if node_id < 10 else None


class Talk(ClientSession):
    """A session whose events are kept by kind, until the test has looked at them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._received: Request | None = None
        self._connection: Connection | None = None
        self._replies: deque[tuple[CallId, Message]] = deque()
        self._passed: deque[tuple[Request, Message | None]] = deque()
        self._wants_upstream = False
        self._expired = False

    def _sort(self) -> None:
        while self.events:
            match event := self.events.popleft():
                case Request():
                    self._received, self._connection = event, event.connection
                case CallReturned(call_id, message):
                    self._replies.append((call_id, message))
                case GroupCallPassed(request, response):
                    self._passed.append((request, response))
                case UpstreamNeeded():
                    self._wants_upstream = True
                case SaslSessionExpired():
                    self._expired = True

    @property
    def request(self) -> Request | None:
        """The last request for the translation."""
        self._sort()
        return self._received

    @request.setter
    def request(self, nothing: None) -> None:
        self._received = nothing

    @property
    def connection(self) -> Connection:
        """What the translation was told of the connection."""
        self._sort()
        assert self._connection is not None
        return self._connection

    @property
    def replies(self) -> deque[tuple[CallId, Message]]:
        """What the broker answered to calls of the translation."""
        self._sort()
        return self._replies

    @property
    def passed(self) -> deque[tuple[Request, Message | None]]:
        """Group calls that pass through."""
        self._sort()
        return self._passed

    @property
    def wants_upstream(self) -> bool:
        """Whether the upstream connection is to be opened."""
        self._sort()
        return self._wants_upstream

    @property
    def metrics(self) -> Metrics:
        """The metrics of its process."""
        return self._listener.request_metrics.metrics

    @property
    def expired(self) -> bool:
        """Whether the session says now that a call can't be made because SASL's lifetime is over."""
        self._expired = False
        self.process()
        self._sort()
        return self._expired


_OBSERVE_ALL = Policy()


def session(
    limits: Limits | None = None,
    *,
    allow_unknown_apis: bool = False,
    opened: bool = True,
    clock: Callable[[], float] = lambda: 0.0,
    rule_for: Callable[[str], Rule] = _OBSERVE_ALL.rule_for,
    held_calls: HeldCallsBudget | None = None,
    on_unblocked: Callable[[], None] = lambda: None,
) -> Talk:
    offers = ApiVersionsNegotiator(allow_unknown_apis=allow_unknown_apis)
    context = Listener(
        told,
        offers,
        limits or Limits(),
        RequestMetrics(Metrics()),
        clock,
        rule_for=rule_for,
        held_calls=held_calls or HeldCallsBudget(2**30),
    )
    talk = Talk(ConnectionId(1), "client-host", context, on_unblocked=on_unblocked)
    if opened:
        talk.upstream_opened()
    return talk


def taken(pieces: list[bytes]) -> bytes:
    """What the shell would write now."""
    data = b"".join(pieces)
    pieces.clear()
    return data


def client_sends(talk: Talk, *data: bytes) -> bytes:
    """The client sends; what goes upstream."""
    talk.receive_from_client(b"".join(data))
    talk.process()
    return taken(talk.to_upstream)


def broker_sends(talk: Talk, *data: bytes) -> bytes:
    """The broker sends; what goes to the client."""
    talk.responses.receive(b"".join(data))
    talk.process()
    return taken(talk.to_client)


def plain_response(correlation_id: int, size: int = 4) -> bytes:
    return wire.response(ApiKey.DELETE_RECORDS, 0, correlation_id, bytes(size))


def heartbeat_response(correlation_id: int, version: int = 3, error: int = 0) -> bytes:
    return wire.response(ApiKey.HEARTBEAT, version, correlation_id, HeartbeatResponse(error_code=error))


def negotiated(talk: Talk, versions=messages.BROKER_VERSIONS) -> Talk:
    """The client has asked for the broker's versions."""
    client_sends(talk, messages.ask_versions(0))
    broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 0, messages.api_versions_response(versions)))
    return talk
