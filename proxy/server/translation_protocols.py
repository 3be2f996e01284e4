"""What the driver needs of a translator, and what the translator's actions need of a connection."""

from typing import Any, Protocol

from protocol_codecs import Message
from proxy.session.speculation import Prediction
from translation.actions import Action, Call, CallId, Connection, ConnectionId, Request, RequestId
from translation.policy.policy import Policy


class Translation(Protocol):
    """What the shell needs of a translator. ``now`` is :func:`trio.current_time`, in seconds."""

    def predict(self, connection: Connection, request: Request) -> Prediction | None:
        """What is certain to come of a Heartbeat, if anything is. The same call of handle_request follows."""
        ...

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """A client's group call."""
        ...

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """The broker's answer to a Call."""
        ...

    def passed(self, now: float, connection: Connection, request: Request, response: Any) -> list[Action]:
        """The broker's answer to a group call that was relayed."""
        ...

    def admits(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group."""
        ...

    def passes_through(self, now: float, group_id: str, member_id: str) -> bool:
        """Whether handle_request would do nothing with this member's Heartbeat but forward it."""
        ...

    def client_gone(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The client's side of a connection has ended; the broker's stays until Release."""
        ...

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """A connection is gone on both sides: no call on it will be answered."""
        ...

    def next_deadline(self) -> float:
        """When handle_time wants to be called; infinity if never."""
        ...

    def handle_time(self, now: float) -> list[Action]:
        """The deadline has come."""
        ...

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Another policy holds from now on."""
        ...

    def settled(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable, with nothing under way."""
        ...


class TranslatedConnection(Protocol):
    """What a connection does for the translation."""

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer a request of the client."""
        ...

    def forward(self, request_id: RequestId) -> None:
        """Let the broker answer it."""
        ...

    def call(self, call: Call) -> None:
        """Send a request to the broker."""
        ...

    def close(self, reason: str) -> None:
        """Close both sides once the client has what was answered."""
        ...

    def release(self) -> None:
        """Close the upstream side that outlived the client."""
        ...

    def fail(self) -> None:
        """Close both sides: something went wrong here that should not have."""
        ...
