"""Entry point of the translation: takes requests of clients and responses of brokers, returns actions.

:mod:`translation.routing` decides what becomes of each request.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from protocol_codecs import ApiKey
from translation.actions import Action, CallId, Connection, ConnectionId, Request
from translation.apis.predicted_heartbeat import PredictedHeartbeat
from translation.conversion import helper
from translation.engine.context import Context
from translation.engine.group_router import GroupRouter
from translation.member_log.group_records import Phase, Proof
from translation.member_log.outputs import Output
from translation.member_log.signals import Report
from translation.members.member_ids import kafka_uuid
from translation.members.member_state import MemberState
from translation.mending.mends import Unowned
from translation.moving import hook_answers, judging
from translation.moving.command_writes import CommandOutcome, obey_command
from translation.moving.mend import Description, described
from translation.moving.move_view import TO_APPROVE, MoveView, show, view_of_waiting
from translation.moving.slot_admission import why_wave_waits
from translation.moving.wave_progress import is_look_due, look
from translation.policy.gates import AbortIf
from translation.policy.policy import Mode, Policy
from translation.rollout.commands import Command
from translation.rollout.wave_counts import WaveCount
from translation.routing import deadlines, log_outputs
from translation.routing.call_routing import predict_heartbeat, route
from translation.routing.relayed_calls import is_relayed, may_be_translated_still
from translation.settings import TranslatorSettings
from translation.upstream import relayed_responses
from translation.upstream.assignor_vote import update_assignors

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


_HEARTBEAT = int(ApiKey.HEARTBEAT)


class Translator:
    """The translation of one process. Sans-IO: time and everything from outside is an argument.

    Each method returns the actions to carry out, in order. ``now`` is in seconds of any clock that does not run
    backwards; it must be the same clock everywhere.

    ``member_log`` is that of this process, if it is one of several replicas that have one. It is never the only process
    then (``sole_process``). Every method may ask the member log for something, so its outputs are to be taken after
    each; those that are not for the shell itself come back by :meth:`handle_log_outputs`.

    ``make_router`` makes what serves the groups of ``mode: host``, an experiment. Without one they are observed.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        settings: TranslatorSettings | None = None,
        new_uuid: Callable[[], str] = kafka_uuid,
        member_log: "MemberLog | None" = None,
        make_router: Callable[[Context], GroupRouter] | None = None,
    ) -> None:
        settings = settings or TranslatorSettings()
        if member_log is not None:
            settings = msgspec.structs.replace(settings, sole_process=False)
        self._context = Context(
            policy,
            settings,
            new_uuid,
            on_member_time=lambda member, now: deadlines.member_time(self._context, member, now),
            on_group_time=lambda group, now: deadlines.group_time(self._context, group, now),
            on_other_rule=self._other_rule,
            member_log=member_log,
            make_router=make_router,
        )
        self._predicted: PredictedHeartbeat | None = None

    def predict(self, now: float, connection: Connection, request: Request) -> PredictedHeartbeat | None:
        """Predict the request to the broker that a Heartbeat leads to; None if that is not certain.

        :meth:`handle_request` has to be called next, with the same request. The caller may send the predicted request
        before that, so that the broker works on it meanwhile.
        """
        self._context.now = now
        self._predicted = None
        if not is_look_due(
            self._context, connection, request
        ):  # else it leads to a question of the proxy's own too
            self._predicted = predict_heartbeat(self._context, connection, request)
        return self._predicted

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """Handle a client's request of one of the group APIs."""
        context = self._context
        context.now = now
        context.connections.track(connection, request)
        predicted, self._predicted = self._predicted, None
        if predicted is not None and predicted.request is request:
            predicted.begin()
        else:
            route(context, connection, request)
        if request.api_key == _HEARTBEAT and is_look_due(context, connection, request):
            look(context, connection, request)
        return self._actions()

    def passes_through(self, now: float, connection_id: ConnectionId, group_id: str, member_id: str) -> bool:
        """Whether :meth:`handle_request` would do nothing with this member's Heartbeat but forward it.

        Only what is certain counts: False for a member that has a record here, whatever becomes of its Heartbeat.
        """
        context = self._context
        context.now = now
        passes = (
            context.registry.find(group_id, member_id) is None
            and (context.router is None or not context.router.may_take(group_id))
            and group_id not in context.mends.telling
            and is_relayed(context, group_id, member_id)
            and not may_be_translated_still(context, group_id, member_id)
        )
        if passes:
            context.uses(connection_id, group_id)
        return passes

    def on_router_failure(self, count: Callable[[], None]) -> None:
        """Call ``count`` whenever a bug has ended a group that a router serves."""
        if self._context.router is not None:
            self._context.router.on_failure(count)

    def has_routed_group(self, now: float, group_id: str) -> bool:
        """Whether a router serves a group, whatever the policy says of it now, or may do
        (:class:`~translation.engine.group_router.GroupRouter`)."""
        context = self._context
        context.now = now
        return context.router is not None and context.router.has_group(group_id)

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """Handle the broker's response to a :class:`~translation.actions.Call`; ``message`` is decoded."""
        self._context.now = now
        self._context.scheduler.handle_reply(call_id, message)
        return self._actions()

    def handle_relayed_response(
        self, now: float, connection: Connection, request: Request, response: Any
    ) -> list[Action]:
        """Learn from the broker's response to a group request that was relayed."""
        context = self._context
        context.now = now
        relayed_responses.observe_response(context, connection, request, response)
        if request.api_key == ApiKey.JOIN_GROUP:
            helper.has_joined_classic(context, connection, request, response)
        return self._actions()

    def is_authorized(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group
        (:mod:`translation.admission.authorization`)."""
        return self._context.authorized_groups.includes(connection_id, group_id)

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """Handle the end of a client's connection. Its members stay until their sessions end."""
        context = self._context
        context.now = now
        members = context.connections.members_on(connection_id)
        if context.router is not None:
            context.router.connection_ended(connection_id)
        context.connections.client_disconnected(connection_id)
        context.fleet.lapse(connection_id)
        context.abandon_joins(members, connection_id)
        return self._actions()

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """Handle the end of an upstream connection, and the client's with it: calls on it get no response."""
        context = self._context
        context.now = now
        if context.router is not None:
            context.router.connection_ended(connection_id)
        context.connection_lost(connection_id)
        return self._actions()

    def handle_log_outputs(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Handle what the member log of this process says of its members.

        The shell produces a :class:`~translation.member_log.outputs.WriteRecord` itself, and keeps the health of
        partitions.
        """
        context = self._context
        context.now = now
        log_outputs.handle_outputs(context, outputs)
        return self._actions()

    def handle_description(
        self, now: float, connection_id: ConnectionId, group_id: str, description: Description
    ) -> list[Action]:
        """Learn from how a broker describes a group without an error, to the principal of this connection: whether
        nobody has some of its partitions (:mod:`translation.moving.mend`)."""
        context = self._context
        context.now = now
        described(context, context.connections.connection(connection_id), group_id, description)
        return self._actions()

    def unowned(self, group_id: str) -> Unowned | None:
        """What partitions of a group nobody has, and what is done about it; None if nothing is known."""
        return self._context.mends.unowned(group_id)

    def count_unowned(self) -> int:
        """How many partitions of all groups nobody has, as far as this process knows."""
        return self._context.mends.count()

    def set_migration_policy(self, policy: str | None) -> None:
        """Note the brokers' ``group.consumer.migration.policy``; None if it is not known."""
        self._context.moves.migration_policy = policy

    def move_of(self, group_id: str) -> MoveView | None:
        """How far the move of a group by steps is; None if it does not move by steps, or has not begun to.

        Of a group whose wave has not begun it says what that waits for.
        """
        context = self._context
        rule = context.rules.written_rule_for(group_id)
        move = context.moves.move(group_id, rule) if rule.staged else None
        if move is None:
            why = why_wave_waits(context, group_id, rule)
            return None if why is None else view_of_waiting(why, rule)
        return show(context, group_id, rule, move)

    def note_proofs(self, now: float, proof_of: Callable[[str], Proof | None]) -> list[Action]:
        """Note what the live verification has found; ``proof_of`` returns it for a group, None if it has nothing."""
        context = self._context
        context.now = now
        context.moves.note_proofs(proof_of)
        return self._actions()

    def set_wall_clock(self, offset_ms: int) -> None:
        """Say what the clock on the wall (milliseconds since 1970) shows more than ``now``.

        Without a member log the policy's windows of time go by it; with one, by the log's clock.
        """
        self._context.moves.records.wall_offset_ms = offset_ms

    def command(self, now: float, command: Command) -> CommandOutcome:
        """Do what somebody says about the move of a group; the same command is to be given again while it is pending.

        Its actions are those of the next call (:meth:`take_actions`).
        """
        self._context.now = now
        return obey_command(self._context, command)

    def take_actions(self, now: float) -> list[Action]:
        """The actions that are left from what returned none."""
        self._context.now = now
        return self._actions()

    def hook_answered(
        self, now: float, group_id: str, number: int, step: int, veto: str | None
    ) -> list[Action]:
        """Note what the hook has said to a :class:`~translation.actions.CallHook` that asks.

        ``veto`` says why the step must not begin; None: it may.
        """
        context = self._context
        context.now = now
        hook_answers.note_answer(context, group_id, number, step, veto)
        return self._actions()

    def moves_by_phase(self) -> Counter[str]:
        """How many groups are moved by steps, by phase, as this process knows them; not those that are over.

        Those that wait for an approval count as :data:`~translation.moving.move_view.TO_APPROVE`.
        """
        phases = Counter[str]()
        for group_id, move in self._context.moves.records.moves():
            view = self.move_of(group_id)
            phases[TO_APPROVE if view is not None and view.needs_approval else move.phase] += 1
        del phases[Phase.OVER]
        return phases

    def gated_groups(self) -> dict[str, AbortIf]:
        """The groups whose move has gates and goes on, each with the thresholds of its rule."""
        return {
            group_id: rule.abort_if
            for group_id, rule, _ in self._context.moves.gates.gated()
            if rule.abort_if is not None
        }

    def groups_in_moves(self) -> frozenset[str]:
        """The groups that are moved by steps, or are held or aborted in the middle of that."""
        return self._context.moves.gates.in_moves()

    def handle_reports(self, now: float, reports: Mapping[str, Report]) -> list[Action]:
        """Report what was seen of these groups, and judge all moves with gates; to be called every ten seconds
        (:data:`~translation.member_log.signals.WINDOW_S`)."""
        self._context.now = now
        judging.judge_moves(self._context, reports)
        return self._actions()

    def gates_by_say(self) -> Counter[str]:
        """How many moves with gates there are, by what the gates say, as this process knows them."""
        moves = self._context.moves
        return Counter(
            str(moves.gates.verdict(group_id, rule).say) for group_id, rule, _ in moves.gates.gated()
        )

    def waves(self) -> list[WaveCount]:
        """The waves of the policy in order, with their groups by state, as this process knows them."""
        return self._context.moves.waves.all()

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable and has no procedure under way."""
        return all(
            member.state is MemberState.STABLE and member.queue.idle
            for member in self._context.connections.members_on(connection_id)
        )

    def next_deadline(self) -> float:
        """When :meth:`handle_time` has to be called (seconds, ``math.inf`` for never); ask again after every call."""
        timers, router = self._context.timers, self._context.router
        return (
            timers.next_deadline() if router is None else min(timers.next_deadline(), router.next_deadline())
        )

    def handle_time(self, now: float) -> list[Action]:
        """Handle every deadline that is due at ``now``."""
        self._context.now = now
        self._context.timers.run(now)
        if self._context.router is not None:
            self._context.router.handle_time()
        return self._actions()

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Use another policy from now on.

        Conversions that the broker refused are tried again. The members of live groups are moved one after another, at
        their own Heartbeats (:mod:`translation.moving.upgrade`). A changed assignor goes upstream at once and
        disturbs nobody (:func:`translation.upstream.assignor_vote.update_assignors`).
        """
        context = self._context
        context.now = now
        other_assignors = set(policy.assignors_allowed) != set(context.rules.policy.assignors_allowed)
        groups = list(context.registry.groups.values())
        observed = {
            group for group in groups if context.rules.rule_for(group.group_id).mode is not Mode.TRANSLATE
        }
        context.rules.set_policy(policy)
        context.moves.policy_changed()
        for group in groups:
            group.migration.policy_changed()
            if other_assignors or group in observed:
                group.relayed_until.clear()  # they are asked for again, and may be moved now
            update_assignors(context, group)
            context.registry.drop_group_if_empty(group)
        return self._actions()

    def _other_rule(self, group_id: str) -> None:
        """A group is rolled back, or not any more: what holds for it has changed as if by the policy."""
        group = self._context.registry.groups.get(group_id)
        if group is not None:
            group.migration.policy_changed()
            group.relayed_until.clear()
            update_assignors(self._context, group)
            self._context.registry.drop_group_if_empty(group)

    def _actions(self) -> list[Action]:
        context = self._context
        actions, context.actions = context.actions, []
        return actions
