"""What a Heartbeat is certain to become, which a session sends before the translation has called for it.

The Heartbeat of a member with nothing under way becomes one known request to the broker, and nearly every reply of the
broker becomes one known answer. The translation predicts both (:class:`Prediction`). The session sends the request at
once, so that the broker works while the translation does, and answers the client as soon as the reply is there
(``proxy.session.injected_requests``). The translation still handles the Heartbeat and the reply as any other. Both
paths must agree: if the translation calls for something else, the connection is closed.
"""

from typing import Any, Protocol

from protocol_codecs import Message
from translation.actions import Answer


class Prediction(Protocol):
    """The request and the answer that one Heartbeat is certain to become."""

    @property
    def upstream_request(self) -> Message:
        """The ConsumerGroupHeartbeat that the translation will call for, and nothing else."""
        ...

    def answer_to(self, reply: Any) -> Answer | None:
        """Return the answer that the translation will give the client after this reply; None if that is not certain."""
        ...
