"""When a run has settled: every client holds what the broker wants it to hold, and nobody else is in the group."""

from typing import TYPE_CHECKING

from coordinator.consumer_groups.group import ConsumerGroupState
from tests.simulation.clients.classic import ClassicClient, Phase
from tests.simulation.clients.native import NativeMember

if TYPE_CHECKING:
    from tests.simulation.world import World


def why_not_settled(world: "World") -> str | None:
    """What is still missing; None if nothing is."""
    group = world.broker.group
    members = [c for c in world.alive() if isinstance(c, NativeMember) or not c.fenced]
    if group is None:
        return None if not members else "the group is no consumer group"
    ids = {getattr(client, "member_id", "") for client in members}
    if strangers := world.broker.members() - ids:
        return f"the group has members that nobody is: {sorted(strangers)}"
    for client in members:
        if isinstance(client, ClassicClient) and (client.phase is not Phase.STABLE or client.wants_rejoin):
            return f"{client} is {client.phase}{' and wants to rejoin' if client.wants_rejoin else ''}"
        if client.member_id not in world.broker.members():
            return f"{client} is no member"
        target = world.broker.target(client.member_id)
        if client.held != target:
            story = world.watch.story
            return f"{client} holds {story.partitions(client.held)}, not {story.partitions(target)}"
    if members and group.state is not ConsumerGroupState.STABLE:
        return f"the group is {group.state}"
    return _orphans(world, members)


def _orphans(world: "World", members: list) -> str | None:
    wanted = frozenset().union(*(client.topics for client in members)) if members else frozenset()
    held = frozenset().union(*(client.held for client in members)) if members else frozenset()
    for topic in world.broker.image.topics.values():
        if topic.name in wanted:
            for index in range(topic.partitions):
                if (topic.topic_id, index) not in held:
                    return f"nobody holds {topic.name}[{index}]"
    return None
