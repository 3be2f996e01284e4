"""Entry point of the translation: takes requests of clients and responses of brokers, returns actions.

:mod:`translation.routing` decides what becomes of each request.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from protocol_codecs import ApiKey
from translation.actions import Action, CallId, ConnectionId, Request
from translation.apis.predicted_heartbeat import PredictedHeartbeat
from translation.conversion.helper import Helpers
from translation.engine.context import Context
from translation.engine.group_router import GroupRouter
from translation.member_log.outputs import Output
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_ids import kafka_uuid
from translation.members.member_state import MemberState
from translation.moving.mend import Description, Mending
from translation.moving.rollout import Rollout
from translation.moving.wave_progress import check_wave, is_wave_check_due
from translation.policy.policy import Mode, Policy
from translation.routing.call_routing import CallRouting
from translation.routing.deadlines import Deadlines
from translation.routing.log_outputs import LogOutputs
from translation.routing.relayed_calls import RelayedCalls
from translation.settings import TranslatorSettings
from translation.upstream.assignor_vote import update_assignors
from translation.upstream.relayed_responses import RelayedResponses

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
        context = Context(
            policy,
            settings,
            new_uuid,
            on_member_time=self._member_time,
            on_group_time=self._group_time,
            on_other_rule=self._other_rule,
            member_log=member_log,
            make_router=make_router,
        )
        self._relayed_calls = RelayedCalls(context)
        self._helpers = Helpers(context)
        self._context = context
        self._environment: Environment = context
        self._scheduler = context.scheduler
        self._member_log = context.member_log
        self._connection_lost = context.connection_lost
        self._abandon_joins = context.abandon_joins
        self._connections = context.connections
        self._memberships = context.memberships
        self._moves = context.moves
        self._registry = context.registry
        self._rules = context.rules
        self._router = context.router
        self._deadlines = Deadlines(context)
        self._log_outputs = LogOutputs(context)
        self._mending = Mending(context)
        self._routing = CallRouting(context)
        self._relayed_responses = RelayedResponses(context)
        self.rollout = Rollout(context)
        """The moves of groups by steps."""
        self.unowned = context.unowned
        """What partitions no member has, by group, and what is done about it."""
        self.is_authorized = context.authorized_groups.includes
        """Whether the broker has accepted a call of this connection for this group
        (:mod:`translation.admission.authorization`)."""
        self._predicted: PredictedHeartbeat | None = None

    def predict(self, now: float, request: Request) -> PredictedHeartbeat | None:
        """Predict the request to the broker that a Heartbeat leads to; None if that is not certain.

        :meth:`handle_request` has to be called next, with the same request. The caller may send the predicted request
        before that, so that the broker works on it meanwhile.
        """
        self._environment.now = now
        self._predicted = self._routing.predict_heartbeat(request)
        return self._predicted

    def handle_request(self, now: float, request: Request) -> list[Action]:
        """Handle a client's request of one of the group APIs."""
        self._environment.now = now
        self._connections.track(request)
        predicted, self._predicted = self._predicted, None
        if predicted is not None and predicted.request is request:
            predicted.begin()
            return self._environment.take_actions()
        self._routing.route(request)
        if request.api_key == _HEARTBEAT and is_wave_check_due(self._moves, self._registry, request):
            check_wave(self._context, request)
        return self._environment.take_actions()

    def passes_through(self, now: float, group_id: str, member_id: str) -> bool:
        """Whether :meth:`handle_request` would do nothing with this member's Heartbeat but forward it.

        Only what is certain counts: False for a member that has a record here, whatever becomes of its Heartbeat.
        """
        self._environment.now = now
        return (
            self._registry.find(group_id, member_id) is None
            and (self._router is None or not self._router.may_take(group_id))
            and group_id not in self.unowned.leaders_to_ask
            and group_id not in self._rules.rolled_back
            and self._relayed_calls.is_relayed(group_id, member_id)
            and not self._relayed_calls.may_be_translated_still(group_id, member_id)
        )

    def on_router_failure(self, count: Callable[[], None]) -> None:
        """Call ``count`` whenever a bug has ended a group that a router serves."""
        if self._router is not None:
            self._router.on_failure(count)

    def has_routed_group(self, now: float, group_id: str) -> bool:
        """Whether a router serves a group, whatever the policy says of it now, or may do
        (:class:`~translation.engine.group_router.GroupRouter`)."""
        self._environment.now = now
        return self._router is not None and self._router.has_group(group_id)

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """Handle the broker's response to a :class:`~translation.actions.Call`; ``message`` is decoded."""
        self._environment.now = now
        self._scheduler.handle_reply(call_id, message)
        return self._environment.take_actions()

    def handle_relayed_response(self, now: float, request: Request, response: Any) -> list[Action]:
        """Learn from the broker's response to a group request that was relayed."""
        self._environment.now = now
        self._relayed_responses.observe_response(request, response)
        if request.api_key == ApiKey.JOIN_GROUP:
            self._helpers.has_joined_classic(request, response)
        return self._environment.take_actions()

    def client_disconnected(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """Handle the end of a client's connection. Its members stay until their sessions end."""
        self._environment.now = now
        members = self._connections.members_on(connection_id)
        if self._router is not None:
            self._router.connection_ended(connection_id)
        self._connections.client_disconnected(connection_id)
        self._member_log.withdraw_confirmations(connection_id)
        self._abandon_joins(members, connection_id)
        return self._environment.take_actions()

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """Handle the end of an upstream connection, and the client's with it: calls on it get no response."""
        self._environment.now = now
        if self._router is not None:
            self._router.connection_ended(connection_id)
        self._connection_lost(connection_id)
        return self._environment.take_actions()

    def handle_log_outputs(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Handle what the member log of this process says of its members.

        The shell produces a :class:`~translation.member_log.outputs.WriteRecord` itself, and keeps the health of
        partitions.
        """
        self._environment.now = now
        self._log_outputs.handle_outputs(outputs)
        return self._environment.take_actions()

    def handle_description(
        self, now: float, connection_id: ConnectionId, group_id: str, description: Description
    ) -> list[Action]:
        """Learn from how a broker describes a group without an error, to the principal of this connection: whether
        nobody has some of its partitions (:mod:`translation.moving.mend`)."""
        self._environment.now = now
        self._mending.described(self._connections.connection(connection_id), group_id, description)
        return self._environment.take_actions()

    def take_actions(self, now: float) -> list[Action]:
        """The actions that are left from what returned none."""
        self._environment.now = now
        return self._environment.take_actions()

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable and has no procedure under way."""
        return all(
            member.state is MemberState.STABLE and member.queue.idle
            for member in self._connections.members_on(connection_id)
        )

    def next_deadline(self) -> float:
        """When :meth:`handle_time` has to be called (seconds, ``math.inf`` for never); ask again after every call."""
        due, router = self._environment.timers.next_due, self._router
        return due if router is None else min(due, router.next_deadline())

    def handle_time(self, now: float) -> list[Action]:
        """Handle every deadline that is due at ``now``."""
        self._environment.now = now
        self._environment.timers.run(now)
        if self._router is not None:
            self._router.handle_time()
        return self._environment.take_actions()

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Use another policy from now on.

        Conversions that the broker refused are tried again. The members of live groups are moved one after another, at
        their own Heartbeats (:mod:`translation.moving.upgrade`). A changed assignor goes upstream at once and
        disturbs nobody (:func:`translation.upstream.assignor_vote.update_assignors`).
        """
        self._environment.now = now
        other_assignors = set(policy.assignors_allowed) != set(self._rules.policy.assignors_allowed)
        groups = list(self._registry.groups.values())
        observed = {
            group for group in groups if self._rules.rule_for(group.group_id).mode is not Mode.TRANSLATE
        }
        self._rules.set_policy(policy)
        self._moves.policy_changed()
        for group in groups:
            group.migration.policy_changed()
            if other_assignors or group in observed:
                group.relayed_until.clear()  # they are asked for again, and may be moved now
            update_assignors(self._memberships, self._rules, group)
            self._registry.drop_group_if_empty(group)
        return self._environment.take_actions()

    def _member_time(self, member: Member, now: float) -> None:
        self._deadlines.member_time(member, now)

    def _group_time(self, group: Group, now: float) -> None:
        self._deadlines.group_time(group, now)

    def _other_rule(self, group_id: str) -> None:
        """A group is rolled back, or not any more: what holds for it has changed as if by the policy."""
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.migration.policy_changed()
            group.relayed_until.clear()
            update_assignors(self._memberships, self._rules, group)
            self._registry.drop_group_if_empty(group)
