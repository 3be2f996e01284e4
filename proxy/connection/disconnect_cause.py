"""The causes by which a client's connection ends, as ``epochgate_client_to_proxy_disconnects_total`` counts them."""

from enum import StrEnum


class DisconnectCause(StrEnum):
    """What ended a client's connection; the label of ``client_to_proxy_disconnects_total``."""

    CLIENT_CLOSED = "client_closed"
    CLIENT_ERROR = "client_error"
    FIRST_REQUEST_TIMEOUT = "idle_timeout"
    SLOW_REQUEST = "slow_request"
    CLIENT_STALLED = "client_stalled"
    IDLE = "idle"
    AGE = "age"
    SERVER_UNREACHABLE = "server_unreachable"
    SERVER_CLOSED = "server_closed"
    SERVER_ERROR = "server_error"
    MISROUTED = "misrouted"
    SESSION_EXPIRED = "session_expired"
    TRANSLATION = "translation"
    DRAIN = "drain"
    RELOADED = "reloaded"
    """The configuration has the port, or the name, no more that its client connected to."""
    INTERNAL_ERROR = "internal_error"


CLIENT_AT_FAULT = frozenset(
    {
        DisconnectCause.CLIENT_ERROR,
        DisconnectCause.FIRST_REQUEST_TIMEOUT,
        DisconnectCause.SLOW_REQUEST,
        DisconnectCause.CLIENT_STALLED,
    }
)
BROKER_AT_FAULT = frozenset(
    {
        DisconnectCause.SERVER_UNREACHABLE,
        DisconnectCause.SERVER_ERROR,
        DisconnectCause.INTERNAL_ERROR,
        DisconnectCause.TRANSLATION,
    }
)
