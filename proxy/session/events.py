"""What a session tells its shell, in order; the shell takes the events from :attr:`ClientSession.events`."""

import msgspec

from protocol_codecs import Message
from translation.actions import CallId, Connection, Request


class UpstreamNeeded(msgspec.Struct, frozen=True):
    """A valid request waits: open the upstream connection and call :meth:`ClientSession.upstream_opened`."""


class GroupCallReceived(msgspec.Struct, frozen=True):
    """The translation has to decide about a group call; answer by ``answer`` or ``forward``."""

    connection: Connection
    request: Request


class CallReturned(msgspec.Struct, frozen=True):
    """The broker answered a call of the translation."""

    call_id: CallId
    message: Message


class GroupCallPassed(msgspec.Struct, frozen=True):
    """A group call passes through: ``response`` is None when it goes to the broker, and then what the broker said."""

    connection: Connection
    request: Request
    response: Message | None


class SaslSessionExpired(msgspec.Struct, frozen=True):
    """A call that somebody waits for can't be made, because the lifetime of the SASL session is over (KIP-368)."""


SessionEvent = UpstreamNeeded | GroupCallReceived | CallReturned | GroupCallPassed | SaslSessionExpired
