"""Looks after the moves of groups in waves when no classic member is left that would: to know when they are over.

How a move goes on is decided when a client wants to be let in (:mod:`translation.moving.slot_admission`). Once all
members are translated nobody does, and at the step of 100 % nobody is counted. So the Heartbeats of translated members
have the broker asked who is in the group, now and then, until the last step has settled.
"""

from translation.actions import Connection, Request
from translation.engine.context import Context
from translation.engine.registry import Registry
from translation.members.procedure import Procedure, ProcedureQueue, UpstreamLost
from translation.moving.slot_admission import SlotAdmission
from translation.policy.policy import Rule
from translation.rollout.moves import Moves

WAVE_CHECK_EVERY_S = 10.0
"""How often the broker is asked about one group by one process."""


def is_wave_check_due(moves: Moves, registry: Registry, request: Request) -> bool:
    """Whether the broker is to be asked with this Heartbeat: its group is in a wave, and it is time for that."""
    group_id: str = request.message.group_id
    rule = moves.rules.rule_for(group_id)
    if rule.wave is None or not moves.is_wave_check_due(group_id, rule):
        return False
    member = registry.find(group_id, request.message.member_id)
    return member is not None and member.joined and member.connection_id == request.connection.id


def check_wave(context: Context, request: Request) -> None:
    """Have the broker asked."""
    group_id: str = request.message.group_id
    context.moves.set_wave_check_at(group_id, context.now + WAVE_CHECK_EVERY_S)
    steps = _check_wave(context, request.connection, group_id, context.rules.rule_for(group_id))
    context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)


def _check_wave(context: Context, connection: Connection, group_id: str, rule: Rule) -> Procedure[None]:
    try:
        yield from SlotAdmission(context).advance_rollout(connection, group_id, rule)
    except UpstreamLost:
        return  # the next Heartbeat comes on another connection
