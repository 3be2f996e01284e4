"""The state that the parts of one session share, and the bytes and events that the shell takes out."""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, cast

from proxy.session.events import SessionEvent
from proxy.session.in_flight import InFlightRequests
from proxy.session.listener import Listener
from proxy.session.sasl import SaslState
from proxy.session.session_state import SessionState
from proxy.session.share_session import ShareSession
from translation.actions import RequestId

if TYPE_CHECKING:
    from proxy.session.reauthentication import Reauthentication

new_request_id = cast("Callable[[], RequestId]", count(1).__next__)
"""Returns an id that no other request of this process has."""


class SessionCore:
    """The shared state of one session, of a client that came to ``listener``."""

    __slots__ = (
        "authentication_answers",
        "events",
        "in_flight",
        "listener",
        "reauthentication",
        "sasl",
        "share_session",
        "state",
        "to_client",
        "to_upstream",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.state = SessionState()
        self.in_flight = InFlightRequests()
        self.sasl = SaslState(listener.clock)
        self.share_session = ShareSession(
            listener.clock, listener.request_metrics.metrics.share_sessions_open.inc
        )
        self.reauthentication: Reauthentication | None = None
        """While the upstream connection authenticates again: no request begins, and none is relayed."""
        self.authentication_answers = 0
        """Answers of the broker to authentications of the proxy's own, which say nothing of the client."""
        self.to_upstream: list[bytes] = []
        """Bytes for the broker, in order."""
        self.to_client: list[bytes] = []
        """Bytes for the client, in order."""
        self.events: deque[SessionEvent] = deque()
