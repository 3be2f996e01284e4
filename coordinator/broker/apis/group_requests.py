"""Passes all group requests to the coordinators of their groups, if they are on this node."""

from coordinator.broker.context import RequestScope
from coordinator.broker.shard_host import ShardHost
from coordinator.handlers.refusal import refusal
from coordinator.handlers.routing import groups_of, merged, restricted_to
from coordinator.shard import Call
from protocol_codecs.all_messages import ListGroupsResponse
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message


async def serve(context: RequestScope, request: Message) -> Message:
    """Serve a request; groups that another node coordinates are answered NOT_COORDINATOR."""
    groups = groups_of(request)
    if groups is None:
        here = [shard for shard in context.cluster.shards if shard.node_id == context.node_id]
        return merged([ListGroupsResponse(), *[await _ask(context, shard, request) for shard in here]])
    by_shard: dict[int, list[str]] = {}
    for group_id in groups:
        by_shard.setdefault(context.cluster.shard_of(group_id).number, []).append(group_id)
    answers = []
    for number, group_ids in by_shard.items():
        shard = context.cluster.shards[number]
        part = restricted_to(request, frozenset(group_ids))
        if shard.node_id == context.node_id:
            answers.append(await _ask(context, shard, part))
        else:
            answers.append(refusal(part, context.version, ErrorCode.NOT_COORDINATOR))
    return merged(answers)


async def _ask(context: RequestScope, shard: ShardHost, request: Message) -> Message:
    connect_groups = context.cluster.connect_groups  # an experiment
    if connect_groups is not None:
        call = Call(0, context.version, context.client_id, context.client_host)
        if (answer := connect_groups.serve_other(shard, request, call)) is not None:
            return answer
    return await shard.call(request, context.version, context.client_id, context.client_host)
