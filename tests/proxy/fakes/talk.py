"""A conversation of the proxy, with the test in the place of the client, the broker and the shell."""

from collections.abc import Callable

from protocol_codecs import ApiKey
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from proxy.config.schema import Address, Limits
from proxy.metrics.registry import Metrics
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.listener_context import ListenerContext
from proxy.session.request_metrics import RequestMetrics
from proxy.session.session import ClientSession
from proxy.wire.api_versions import ApiVersionsNegotiator
from tests.proxy.fakes import messages, wire
from translation.actions import ConnectionId
from translation.policy.policy import Mode


def told(node_id: int, _host: str, _port: int) -> Address | None:
    return Address("proxy", 9100 + node_id) if node_id < 10 else None


def session(
    limits: Limits | None = None,
    *,
    allow_unknown_apis: bool = False,
    opened: bool = True,
    clock: Callable[[], float] = lambda: 0.0,
    mode_of: Callable[[str], Mode] = lambda _group_id: Mode.OBSERVE,
    held_calls: HeldCallsBudget | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> ClientSession:
    offers = ApiVersionsNegotiator(allow_unknown_apis=allow_unknown_apis)
    context = ListenerContext(
        told,
        offers,
        limits or Limits(),
        RequestMetrics(Metrics()),
        clock,
        mode_of=mode_of,
        held_calls=held_calls or HeldCallsBudget(2**30),
    )
    talk = ClientSession(ConnectionId(1), "client-host", context, go_on=go_on)
    if opened:
        talk.opened()
    return talk


def taken(pieces: list[bytes]) -> bytes:
    """What the shell would write now."""
    data = b"".join(pieces)
    pieces.clear()
    return data


def client_sends(talk: ClientSession, *data: bytes) -> bytes:
    """The client sends; what goes upstream."""
    talk.receive_from_client(b"".join(data))
    talk.process()
    return taken(talk.to_upstream)


def broker_sends(talk: ClientSession, *data: bytes) -> bytes:
    """The broker sends; what goes to the client."""
    talk.responses.receive(b"".join(data))
    talk.process()
    return taken(talk.to_client)


def plain_response(correlation_id: int, size: int = 4) -> bytes:
    return wire.response(ApiKey.DELETE_RECORDS, 0, correlation_id, bytes(size))


def heartbeat_response(correlation_id: int, version: int = 3, error: int = 0) -> bytes:
    return wire.response(ApiKey.HEARTBEAT, version, correlation_id, HeartbeatResponse(error_code=error))


def negotiated(talk: ClientSession, versions=messages.BROKER_VERSIONS) -> ClientSession:
    """The client has asked for the broker's versions."""
    client_sends(talk, messages.ask_versions(0))
    broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 0, messages.api_versions_response(versions)))
    return talk
