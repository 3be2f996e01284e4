"""Runs the proxy in this process with the demo's own configuration, and reports the translator's events."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import trio

from proxy.config.schema import Admin, Config, Drain, Listener, Upstream
from proxy.server.server import Server
from proxy.session.speculation import Prediction
from translation.actions import Action, CallId, Connection, ConnectionId, Emit, Event, Request
from translation.engine.mends import Unowned
from translation.engine.wave_counts import WaveCount
from translation.fleet.group_records import Proof
from translation.fleet.outputs import Output
from translation.fleet.signals import Report
from translation.migration.command_writes import CommandOutcome
from translation.migration.commands import Command
from translation.migration.mending import Description
from translation.migration.move_view import MoveView
from translation.policy.gates import AbortIf
from translation.policy.policy import Mode, Policy, Rule
from translation.translator import Translator

_LOOPBACK = "127.0.0.1"
_DRAIN_S = 2.0


class ReportingTranslator:
    """Wraps a translator and passes each of its events to ``on_event``."""

    def __init__(self, translator: Translator, on_event: Callable[[Event], None]) -> None:
        self._translator = translator
        self._on_event = on_event

    def predict(self, now: float, connection: Connection, request: Request) -> Prediction | None:
        """What is certain to come of a Heartbeat."""
        return self._translator.predict(now, connection, request)

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """A client's group call."""
        return self._report_events(self._translator.handle_request(now, connection, request))

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """The broker's answer to a Call."""
        return self._report_events(self._translator.handle_reply(now, call_id, message))

    def handle_relayed_response(
        self, now: float, connection: Connection, request: Request, response: Any
    ) -> list[Action]:
        """The broker's answer to a group call that was relayed."""
        return self._report_events(
            self._translator.handle_relayed_response(now, connection, request, response)
        )

    def count_hosted_failures(self, count: Callable[[], None]) -> None:
        """Have ``count`` called whenever a bug has ended a hosted group."""
        self._translator.count_hosted_failures(count)

    def hosts(self, now: float, group_id: str) -> bool:
        """Whether a group is hosted, or may be."""
        return self._translator.hosts(now, group_id)

    def passes_through(self, now: float, connection_id: ConnectionId, group_id: str, member_id: str) -> bool:
        """Whether a member's Heartbeat is only forwarded."""
        return self._translator.passes_through(now, connection_id, group_id, member_id)

    def is_authorized(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of a connection for a group."""
        return self._translator.is_authorized(connection_id, group_id)

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The client's side of a connection has ended."""
        return self._report_events(self._translator.client_disconnected(now, connection_id))

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """A connection is gone on both sides."""
        return self._report_events(self._translator.upstream_lost(now, connection_id))

    def handle_log_outputs(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """What the member log says; there is none here."""
        return self._report_events(self._translator.handle_log_outputs(now, outputs))

    def set_migration_policy(self, policy: str | None) -> None:
        """The brokers' migration policy."""
        self._translator.set_migration_policy(policy)

    def move_of(self, group_id: str) -> MoveView | None:
        """How far the move of a group by steps is."""
        return self._translator.move_of(group_id)

    def note_proofs(self, now: float, proof_of: Callable[[str], Proof | None]) -> list[Action]:
        """What the live verification has found."""
        return self._report_events(self._translator.note_proofs(now, proof_of))

    def handle_description(
        self, now: float, connection_id: ConnectionId, group_id: str, description: Description
    ) -> list[Action]:
        """See :class:`proxy.server.translation_protocols.Translation`."""
        return self._report_events(
            self._translator.handle_description(now, connection_id, group_id, description)
        )

    def unowned(self, group_id: str) -> Unowned | None:
        """See :class:`proxy.server.translation_protocols.Translation`."""
        return self._translator.unowned(group_id)

    def count_unowned(self) -> int:
        """See :class:`proxy.server.translation_protocols.Translation`."""
        return self._translator.count_unowned()

    def moves_by_phase(self) -> Counter[str]:
        """How many groups are moved by steps."""
        return self._translator.moves_by_phase()

    def set_wall_clock(self, offset_ms: int) -> None:
        """What the clock on the wall shows more."""
        self._translator.set_wall_clock(offset_ms)

    def command(self, now: float, command: Command) -> CommandOutcome:
        """A command about a group's move; nobody gives one here."""
        return self._translator.command(now, command)

    def take_actions(self, now: float) -> list[Action]:
        """The actions that are left."""
        return self._report_events(self._translator.take_actions(now))

    def hook_answered(
        self, now: float, group_id: str, number: int, step: int, veto: str | None
    ) -> list[Action]:
        """What a hook has answered; there is none here."""
        return self._report_events(self._translator.hook_answered(now, group_id, number, step, veto))

    def gated_groups(self) -> dict[str, AbortIf]:
        """The groups whose move has gates."""
        return self._translator.gated_groups()

    def groups_in_moves(self) -> frozenset[str]:
        """The groups that are moved by steps."""
        return self._translator.groups_in_moves()

    def handle_reports(self, now: float, reports: Mapping[str, Report]) -> list[Action]:
        """What was seen of these groups."""
        return self._report_events(self._translator.handle_reports(now, reports))

    def gates_by_say(self) -> Counter[str]:
        """How many moves with gates there are."""
        return self._translator.gates_by_say()

    def waves(self) -> list[WaveCount]:
        """The waves of the policy."""
        return self._translator.waves()

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        """Whether every member on a connection is Stable."""
        return self._translator.is_quiescent(connection_id)

    def next_deadline(self) -> float:
        """When handle_time wants to be called."""
        return self._translator.next_deadline()

    def handle_time(self, now: float) -> list[Action]:
        """The deadline has come."""
        return self._report_events(self._translator.handle_time(now))

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Another policy holds from now on."""
        return self._report_events(self._translator.set_policy(now, policy))

    def _report_events(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Emit):
                self._on_event(action.event)
        return actions


class DemoProxy:
    """A proxy on free loopback ports that translates one group."""

    def __init__(
        self, bootstrap: str, node_ids: Iterable[int], group_id: str, on_event: Callable[[Event], None]
    ) -> None:
        policy = Policy(rules=(Rule(mode=Mode.TRANSLATE, group=group_id),))
        listener = Listener(
            bind=_LOOPBACK,
            port=0,
            advertised_host=_LOOPBACK,
            nodes={str(node_id): 0 for node_id in node_ids},
        )
        config = Config(
            upstream=Upstream(bootstrap=tuple(bootstrap.split(","))),
            listeners=(listener,),
            admin=Admin(port=0),
            drain=Drain(grace_s=_DRAIN_S),
        )
        self._server = Server(config, ReportingTranslator(Translator(policy), on_event), policy=policy)

    @property
    def bootstrap(self) -> str:
        """The address that its clients connect to."""
        return f"{_LOOPBACK}:{self._server.ports.listeners[0].port}"

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop`. ``task_status`` starts once clients can connect."""
        await self._server.run(task_status)

    def stop(self) -> None:
        """Make :meth:`run` drain and return."""
        self._server.stop()
