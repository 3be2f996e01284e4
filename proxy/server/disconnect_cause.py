"""Why a client's connection ended."""

from enum import StrEnum


class Cause(StrEnum):
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
    INTERNAL_ERROR = "internal_error"


CLIENT_AT_FAULT = frozenset(
    {Cause.CLIENT_ERROR, Cause.FIRST_REQUEST_TIMEOUT, Cause.SLOW_REQUEST, Cause.CLIENT_STALLED}
)
BROKER_AT_FAULT = frozenset(
    {Cause.SERVER_UNREACHABLE, Cause.SERVER_ERROR, Cause.INTERNAL_ERROR, Cause.TRANSLATION}
)
