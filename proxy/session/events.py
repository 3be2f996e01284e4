"""The events that a session returns to its shell, which takes them from :attr:`ClientSession.events` in order."""

import msgspec

from protocol_codecs import Message
from translation.actions import CallId, Request


class UpstreamNeeded(msgspec.Struct, frozen=True):
    """A valid request waits: the shell opens an upstream connection and calls :meth:`ClientSession.upstream_opened`."""


class CallReturned(msgspec.Struct, frozen=True):
    """The broker answered a call of the translation."""

    call_id: CallId
    message: Message


class GroupCallPassed(msgspec.Struct, frozen=True):
    """A group call passes through: ``response`` is None when it is relayed, and the broker's when that has answered."""

    request: Request
    response: Message | None


class SaslSessionExpired(msgspec.Struct, frozen=True):
    """A call that is needed can't be sent, because the lifetime of the SASL session is over (KIP-368)."""


SessionEvent = UpstreamNeeded | Request | CallReturned | GroupCallPassed | SaslSessionExpired
"""With a :class:`Request` the translation has to decide about it; the shell calls ``answer`` or ``forward`` then."""
