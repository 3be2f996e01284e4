"""Lets the classic members of a group that starts come first, if its step lets only some of its clients be translated.

When an application starts, its clients join in the same moments. A heartbeat that reaches the broker in the first
rebalance of the classic ones fails, and so do their JoinGroups: Kafka (to 4.4.0) answers those REBALANCE_IN_PROGRESS
before it finds out that it can't convert a group that has never had a generation. If the initial rebalance delay ends
before one of them is back, nobody is answered for a whole rebalance timeout.
"""

from translation.actions import Request
from translation.engine.context import Context
from translation.engine.join_outcomes import StaysClassic
from translation.engine.join_wait import join_wait_limit_s, wait_in_join
from translation.members.member import Member
from translation.members.procedure import Procedure
from translation.moving.group_members import describe_members
from translation.moving.slot_admission import SlotAdmission
from translation.policy.policy import Mode


def await_first_members(
    context: Context, member: Member, request: Request, deadline: float
) -> Procedure[None]:
    """Return when somebody is in the group, or has had time to come.

    The JoinGroup of ``member`` may wait until ``deadline``, and here for ``first_member_wait_s`` of it. Nobody waits at
    the step of 100 %, nor without steps: then no client of the group is to stay classic.

    :raises StaysClassic: the policy has changed, so that the group is not to be begun by this client.
    """
    group_id, settings = member.group.group_id, context.settings
    until = min(
        deadline,
        deadline
        - join_wait_limit_s(context, member.client.rebalance_timeout_ms, member.group)
        + settings.first_member_wait_s,
    )
    waited = False
    while True:
        rule = context.rules.rule_for(group_id)
        if waited and (rule.mode is not Mode.TRANSLATE or rule.pause):
            raise StaysClassic(as_new=True)
        if context.now >= until or not context.moves.counts_members(group_id, rule):
            return
        group_members = yield from describe_members(
            context.moves, context.registry, group_id, request.connection
        )
        if group_members is None or not group_members.is_empty:
            return
        yield from SlotAdmission(context).note_empty(group_id)
        yield from wait_in_join(member, request, min(until, context.now + settings.join_poll_s))
        waited = True
