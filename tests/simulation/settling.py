"""Checks that a run has settled: every client holds the broker's assignment, and the group has no other members."""

from typing import TYPE_CHECKING, Any

from coordinator.consumer_groups.group import ConsumerGroupState
from tests.simulation.clients.classic import ClassicClient, Phase
from tests.simulation.clients.native import NativeMember
from translation.members.conversion import is_helper
from translation.policy.assignors import map_assignor

if TYPE_CHECKING:
    from tests.simulation.world import World


_IDLES_FOR_MS = 50_000
"""How long a member of the new protocol that commits no more is looked at: a classic client of which no more is known
would be ended after 45 s."""


def why_not_settled(world: "World") -> str | None:
    """Return what is still missing; None if nothing is."""
    group = world.broker.group or world.broker.classic_group
    members = [c for c in world.alive() if isinstance(c, NativeMember) or not c.fenced]
    if group is None:
        return None if not members else "there is no group"
    if strangers := _strangers(world, members):
        return f"the group has members that nobody is: {sorted(strangers)}"
    # The others may make it a consumer group of classic members.
    if not world.translates:
        in_consumer_group = world.broker.group is not None
        members = [one for one in members if not _is_kept_out(one, in_consumer_group)]
    for client in members:
        if isinstance(client, NativeMember) and client.idles_for_ms < _IDLES_FOR_MS:
            return f"{client} has not been idle for {_IDLES_FOR_MS / 1000:g} s"
        if isinstance(client, ClassicClient) and (client.phase is not Phase.STABLE or client.wants_rejoin):
            return f"{client} is {client.phase}{' and wants to rejoin' if client.wants_rejoin else ''}"
        if client.member_id not in world.broker.members():
            return f"{client} is no member"
        if why := _wrong_assignor(world, client):
            return why
        classic = world.watch.standings[client].classic
        if isinstance(client, ClassicClient) and _is_of_the_wrong_protocol(world, classic=classic):
            return f"{client} has not been moved to the other protocol"
        target = world.broker.target(client.member_id)
        missing = {pid for pid in target - client.held if not world.broker.oversights.excuse(group, pid)}
        if missing or client.held - target:
            story = world.watch.story
            return f"{client} holds {story.partitions(client.held)}, not {story.partitions(target)}"
    if members and group.state.value != ConsumerGroupState.STABLE.value:
        return f"the group is {group.state}"
    return world.watch.steps.why_not_settled() or _orphans(world, members, group)


def _strangers(world: "World", members: list[Any]) -> set[str]:
    """Members of the group that no client is. A helper is none, as long as classic members are left."""
    strangers = world.broker.members() - {getattr(client, "member_id", "") for client in members}
    if _is_partly_converted(world):
        return {one for one in strangers if not is_helper(one)}
    return strangers


def _is_of_the_wrong_protocol(world: "World", *, classic: bool) -> bool:
    """Whether the policy moves this client yet. How many of a group that moves by steps it has to move is
    :mod:`tests.simulation.watch_steps`'s."""
    translates = world.translates
    return classic is translates and not (translates and world.steps)


def _is_partly_converted(world: "World") -> bool:
    """Whether a step lets only some of the members be translated, so that they may not vote for an assignor yet."""
    group = world.broker.group
    return group is not None and any(member.uses_classic_protocol for member in group.members.values())


def _is_kept_out(client: Any, of_consumer_group: bool) -> bool:
    return isinstance(client, ClassicClient) and client.is_kept_out(of_consumer_group=of_consumer_group)


def _wrong_assignor(world: "World", client: Any) -> str | None:
    """Return an error if a translated member has neither the policy's assignor nor one of its process."""
    if world.broker.group is None or not isinstance(client, ClassicClient):
        return None
    member = world.broker.group.members[client.member_id]
    if world.watch.standings[client].classic:
        return None
    policy = world.policy.rules[0].assignor
    beside = [one for one in world.alive() if isinstance(one, ClassicClient)]
    beside = [one for one in beside if world.process_of(one) is world.process_of(client)]
    wanted = {policy} if policy else {map_assignor(one.habits.protocols) for one in beside}
    if world.watch.memberships.has_converted and not policy:
        wanted.add(
            "uniform"
        )  # a client's own range may not be the broker's (translation/conversion/votes.py)
    has_no_vote = client.member_id in world.watch.memberships.without_vote
    if member.server_assignor in wanted or (has_no_vote and _is_partly_converted(world)):
        return None
    return f"the broker has assignor {member.server_assignor} for {client}, not one of {sorted(wanted)}"


def _orphans(world: "World", members: list, group: Any) -> str | None:
    wanted = frozenset().union(*(client.topics for client in members)) if members else frozenset()
    held = frozenset().union(*(client.held for client in members)) if members else frozenset()
    for topic in world.broker.image.topics.values():
        if topic.name in wanted:
            for index in range(topic.partitions):
                pid = topic.topic_id, index
                if pid not in held and not world.broker.oversights.excuse(group, pid):
                    return f"nobody holds {topic.name}[{index}]"
    return None
