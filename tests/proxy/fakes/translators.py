"""Translations that do what a test says."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.session.prediction import Prediction
from translation.actions import (
    Action,
    CallId,
    ConnectionId,
    Forward,
    Release,
    Request,
)
from translation.member_log.group_records import Proof
from translation.member_log.outputs import Output
from translation.member_log.signals import Report
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.policy.gates import AbortIf
from translation.policy.policy import Policy
from translation.rollout.commands import Command
from translation.rollout.wave_counts import WaveCount


class ForwardEverything:
    """Answers every call with Forward and needs no connection after its client."""

    def predict(self, now: float, request: Request) -> Prediction | None:
        return None

    def handle_request(self, now: float, request: Request) -> list[Action]:
        return [Forward(request.id)]

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        return []

    def handle_relayed_response(self, now: float, request: Request, response: Any) -> list[Action]:
        return []

    @property
    def rollout(self) -> "ForwardEverything":
        return self

    unowned = rollout

    heartbeats_pass_through = False

    routed: frozenset[str] | set[str] = frozenset()

    def on_router_failure(self, count: Callable[[], None]) -> None:
        """No group is served here."""

    def has_routed_group(self, now: float, group_id: str) -> bool:
        return group_id in self.routed

    def passes_through(self, now: float, group_id: str, member_id: str) -> bool:
        return self.heartbeats_pass_through

    def is_authorized(self, connection_id: ConnectionId, group_id: str) -> bool:
        return True

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        return [Release(connection_id)]

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        return []

    def handle_log_outputs(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        return []

    def next_deadline(self) -> float:
        return math.inf

    def handle_time(self, now: float) -> list[Action]:
        return []

    def set_migration_policy(self, policy: str | None) -> None:
        pass

    def move_of(self, group_id: str) -> None:
        return None

    def note_proofs(self, now: float, proof_of: Callable[[str], Proof | None]) -> list[Action]:
        return []

    def handle_description(
        self, now: float, connection_id: ConnectionId, group_id: str, description: Any
    ) -> list[Action]:
        return []

    def of_group(self, group_id: str) -> None:
        return None

    def count(self) -> int:
        return 0

    def waves(self) -> list[WaveCount]:
        return []

    def moves_by_phase(self) -> Counter[str]:
        return Counter()

    def set_wall_clock(self, offset_ms: int) -> None:
        pass

    def command(self, now: float, command: Command) -> CommandOutcome:
        return CommandOutcome(state=CommandState.DONE, text="done")

    def take_actions(self, now: float) -> list[Action]:
        return []

    def hook_answered(
        self, now: float, group_id: str, number: int, step: int, veto: str | None
    ) -> list[Action]:
        return []

    def gated_groups(self) -> dict[str, AbortIf]:
        return {}

    def groups_in_moves(self) -> frozenset[str]:
        return frozenset()

    def handle_reports(self, now: float, reports: Mapping[str, Report]) -> list[Action]:
        return []

    def gates_by_state(self) -> Counter[str]:
        return Counter()

    is_settled = True

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        return self.is_settled

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        return []


class Scripted(ForwardEverything):
    """Does what the test puts into its attributes, and notes what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.on_request: Callable[[Request], list[Action]] = lambda request: [Forward(request.id)]
        self.on_reply: Callable[[CallId, Any], list[Action]] = lambda _c, _m: []
        self.on_client_disconnected: Callable[[ConnectionId], list[Action]] = lambda c: [Release(c)]
        self.on_time: Callable[[float], list[Action]] = lambda _now: []
        self.predicted: Callable[[Request], Prediction | None] = lambda _request: None
        self.deadline = math.inf

    def predict(self, now: float, request: Request) -> Prediction | None:
        return self.predicted(request)

    def handle_request(self, now: float, request: Request) -> list[Action]:
        self.told.append(("request", request.connection, request))
        return self.on_request(request)

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        self.told.append(("reply", call_id, message))
        return self.on_reply(call_id, message)

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        self.told.append(("client gone", connection_id))
        return self.on_client_disconnected(connection_id)

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        self.told.append(("upstream lost", connection_id))
        return []

    def next_deadline(self) -> float:
        return self.deadline

    def handle_time(self, now: float) -> list[Action]:
        self.told.append(("time", now))
        self.deadline = math.inf
        return self.on_time(now)

    def requests(self) -> list[Request]:
        return [entry[2] for entry in self.told if entry[0] == "request"]

    def kinds(self) -> list[str]:
        return [entry[0] for entry in self.told]
