"""The leader of a classic group, while its group is not translated: assigns the partitions."""

from collections.abc import Mapping, Sequence

from protocol_codecs.messages.consumer_protocol import decode_subscription
from protocol_codecs.messages.join_group import JoinGroupResponseMember
from protocol_codecs.messages.sync_group import SyncGroupRequestAssignment
from tests.simulation.clients.speech import Named, write_assignment


def assign(
    partition_counts: Mapping[str, int], members: Sequence[JoinGroupResponseMember]
) -> tuple[SyncGroupRequestAssignment, ...]:
    """Assign round robin; a partition that a member still claims goes to no other member in this generation.

    If two claim it, the claim of the newer generation wins, as with Java's cooperative-sticky assignor.
    """
    subscriptions = {member.member_id: decode_subscription(member.metadata)[1] for member in members}
    owner: dict[Named, str] = {
        (owned.topic, index): member_id
        for member_id, subscription in sorted(subscriptions.items(), key=lambda one: one[1].generation_id)
        for owned in subscription.owned_partitions
        for index in owned.partitions
    }
    shares: dict[str, list[Named]] = {member_id: [] for member_id in sorted(subscriptions)}
    turn = 0
    for topic, count in sorted(partition_counts.items()):
        takers = [member_id for member_id in shares if topic in subscriptions[member_id].topics]
        for index in range(count if takers else 0):
            taker = takers[turn % len(takers)]
            turn += 1
            if owner.get((topic, index), taker) == taker:
                shares[taker].append((topic, index))
    return tuple(
        SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(share))
        for member_id, share in shares.items()
    )
