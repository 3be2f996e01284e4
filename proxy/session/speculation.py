"""Tracks the request that a session sends for a Heartbeat before the translation has called for it.

The Heartbeat of a member with nothing under way becomes one known request to the broker, and nearly every reply of the
broker becomes one known answer. The translation predicts both (:class:`Prediction`). The session sends the request at
once, so that the broker works while the translation does, and answers the client as soon as the reply is there. The
translation still handles the Heartbeat and the reply as any other. Both paths must agree: if the translation calls for
something else, the connection is closed.
"""

from collections.abc import Callable
from typing import Any, Protocol

from protocol_codecs import Message
from translation.actions import Answer, Call


class Prediction(Protocol):
    """The request and the answer that one Heartbeat is certain to become."""

    @property
    def upstream_request(self) -> Message:
        """The ConsumerGroupHeartbeat that the translation will call for, and nothing else."""
        ...

    def answer_to(self, reply: Any) -> Answer | None:
        """Return the answer that the translation will give the client after this reply; None if that is not certain."""
        ...


class Speculation:
    """The prediction under way on one connection."""

    __slots__ = ("_prediction", "_unconfirmed", "on_answer")

    def __init__(self) -> None:
        self.on_answer: Callable[[Answer], None] = lambda _answer: None
        """Called with the answer that a reply of the broker makes certain."""
        self._prediction: Prediction | None = None
        self._unconfirmed = False

    def sent(self, prediction: Prediction) -> None:
        """The session sent the request that the translation will call for."""
        self._prediction = prediction
        self._unconfirmed = True

    def confirms(self, call: Call) -> bool:
        """Whether ``call`` is the request that was sent in advance; False if none was.

        :raises LookupError: the translation calls for another one.
        """
        if not self._unconfirmed or self._prediction is None:
            return False
        if call.message is not self._prediction.upstream_request:
            raise LookupError(
                f"{self._prediction.upstream_request!r} was sent, but the translation called for {call!r}"
            )
        self._unconfirmed = False
        return True

    def replied(self, reply: Message) -> None:
        """The broker answered the injected request in flight, whether it was predicted or not."""
        prediction, self._prediction = self._prediction, None
        if prediction is not None and (answer := prediction.answer_to(reply)) is not None:
            self.on_answer(answer)
