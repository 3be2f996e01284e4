"""The interfaces between the driver, the translator and the connections."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from protocol_codecs import Message
from proxy.session.speculation import Prediction
from translation.actions import Action, Call, CallId, Connection, ConnectionId, Request, RequestId
from translation.member_log.group_records import Proof
from translation.member_log.outputs import Output
from translation.member_log.signals import Report
from translation.mending.mends import Unowned
from translation.moving.command_writes import CommandOutcome
from translation.moving.mend import Description
from translation.moving.move_view import MoveView
from translation.policy.gates import AbortIf
from translation.policy.policy import Policy
from translation.rollout.commands import Command
from translation.rollout.wave_counts import WaveCount


class Translation(Protocol):
    """A translator, as the driver uses it. ``now`` is :func:`trio.current_time`, in seconds."""

    def predict(self, now: float, connection: Connection, request: Request) -> Prediction | None:
        """Return what a Heartbeat is certain to cause, if anything; handle_request follows with the same arguments."""
        ...

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """Handle a client's group call."""
        ...

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """Handle the broker's response to a Call."""
        ...

    def handle_relayed_response(
        self, now: float, connection: Connection, request: Request, response: Any
    ) -> list[Action]:
        """Note the broker's response to a group call that was relayed."""
        ...

    def is_authorized(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group."""
        ...

    def passes_through(self, now: float, connection_id: ConnectionId, group_id: str, member_id: str) -> bool:
        """Whether handle_request would do nothing with this member's Heartbeat but forward it."""
        ...

    def on_router_failure(self, count: Callable[[], None]) -> None:
        """Call ``count`` whenever a bug has ended a group that a router serves."""
        ...

    def has_routed_group(self, now: float, group_id: str) -> bool:
        """Whether a router serves a group, or may do."""
        ...

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The client has closed a connection; its upstream connection stays until Release."""
        ...

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """Both sides of a connection are closed: no call on it will be answered."""
        ...

    def handle_log_outputs(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Note what the member log says of members."""
        ...

    def next_deadline(self) -> float:
        """Return when handle_time has to be called next; infinity for never."""
        ...

    def handle_time(self, now: float) -> list[Action]:
        """Do what is due."""
        ...

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Apply another policy."""
        ...

    def set_migration_policy(self, policy: str | None) -> None:
        """Note the brokers' migration policy; None if it is not known."""
        ...

    def move_of(self, group_id: str) -> MoveView | None:
        """Return how far the move of a group by steps is; None if there is none."""
        ...

    def note_proofs(self, now: float, proof_of: Callable[[str], Proof | None]) -> list[Action]:
        """Note what the live verification has found; ``proof_of`` returns it for a group."""
        ...

    def moves_by_phase(self) -> Counter[str]:
        """Return how many groups are moved by steps, by phase."""
        ...

    def set_wall_clock(self, offset_ms: int) -> None:
        """Note what the clock on the wall shows more than ``now``, in milliseconds."""
        ...

    def command(self, now: float, command: Command) -> CommandOutcome:
        """Do what somebody says about a group's move; actions are left for take_actions."""
        ...

    def take_actions(self, now: float) -> list[Action]:
        """Return the actions that are left."""
        ...

    def hook_answered(
        self, now: float, group_id: str, number: int, step: int, veto: str | None
    ) -> list[Action]:
        """Note what the hook has answered."""
        ...

    def gated_groups(self) -> dict[str, AbortIf]:
        """Return the groups whose move has gates and goes on, with their thresholds."""
        ...

    def groups_in_moves(self) -> frozenset[str]:
        """Return the groups that are moved by steps, or held or aborted in the middle of that."""
        ...

    def handle_reports(self, now: float, reports: Mapping[str, Report]) -> list[Action]:
        """Report what was seen of these groups, and judge all moves with gates."""
        ...

    def gates_by_say(self) -> Counter[str]:
        """Return how many moves with gates there are, by what the gates say."""
        ...

    def handle_description(
        self, now: float, connection_id: ConnectionId, group_id: str, description: Description
    ) -> list[Action]:
        """Note how a broker describes a group."""
        ...

    def unowned(self, group_id: str) -> Unowned | None:
        """Return what partitions of a group nobody has; None if nothing is known."""
        ...

    def count_unowned(self) -> int:
        """Return how many partitions of all groups nobody has."""
        ...

    def waves(self) -> list[WaveCount]:
        """Return the waves of the policy in order, with their groups by state."""
        ...

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable, with nothing under way."""
        ...


class TranslatedConnection(Protocol):
    """A connection, as the driver uses it to execute actions."""

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer a request of the client."""
        ...

    def forward(self, request_id: RequestId) -> None:
        """Relay a request of the client, so that the broker answers it."""
        ...

    def call(self, call: Call) -> None:
        """Send a request to the broker on the upstream connection of this client."""
        ...

    def close(self, reason: str) -> None:
        """Close both sides, once the client has got the answers before."""
        ...

    def release(self) -> None:
        """Close the upstream connection that outlived the client."""
        ...

    def fail(self) -> None:
        """Close both sides after an internal error."""
        ...
