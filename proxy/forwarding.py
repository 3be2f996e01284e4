"""A translation that translates nothing: every group stays a classic group."""

import math
from typing import Any

from translation.actions import Action, CallId, Connection, ConnectionId, Forward, Release, Request
from translation.policy import Policy


class ForwardEverything:
    """Answers every call with Forward."""

    def handle_request(self, _now: float, _connection: Connection, request: Request) -> list[Action]:
        """Let the broker answer."""
        return [Forward(request.id)]

    def handle_reply(self, _now: float, _call_id: CallId, _message: Any) -> list[Action]:
        """Nothing was called, so nothing comes."""
        return []

    def client_gone(self, _now: float, connection_id: ConnectionId) -> list[Action]:
        """No member needs the connection."""
        return [Release(connection_id)]

    def upstream_lost(self, _now: float, _connection_id: ConnectionId) -> list[Action]:
        """Nothing was under way."""
        return []

    def next_deadline(self) -> float:
        """Never."""
        return math.inf

    def handle_time(self, _now: float) -> list[Action]:
        """Nothing waits."""
        return []

    def set_policy(self, _now: float, _policy: Policy) -> list[Action]:
        """The policy does not matter."""
        return []
