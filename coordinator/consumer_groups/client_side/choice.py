"""Which client-side assignor a group uses, if it uses one (KIP-848, "Assignment Process").

The KIP: one that all members support, "respecting the precedence defined by the members". Where members' orders differ
it says no more; here each member votes for the first of its assignors that all support, as classic groups do, and the
name decides a tie.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from coordinator.consumer_groups.client_side.declarations import CLASSIC_VERSION, ClientAssignor
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.messages.consumer_protocol import decode_subscription

Offers = Mapping[str, ClientAssignor]
"""A member's assignors by name, in its order."""


def offers_of(member: ConsumerGroupMember) -> Offers:
    """Return what a member offers. A classic member's protocols are assignors, with its user data as metadata."""
    if not member.uses_classic_protocol:
        return {assignor.name: assignor for assignor in member.client_assignors}
    offers = {}
    for protocol in member.classic_protocols:
        try:
            _, subscription = decode_subscription(protocol.metadata)
        except MalformedMessage:
            continue  # whoever computes could not be told of it
        offers[protocol.name] = ClientAssignor(
            name=protocol.name,
            minimum_version=CLASSIC_VERSION,
            maximum_version=CLASSIC_VERSION,
            metadata_version=CLASSIC_VERSION,
            metadata=subscription.user_data or b"",
        )
    return offers


def chosen_assignor(members: Iterable[ConsumerGroupMember]) -> str | None:
    """Return the client-side assignor of a group with these members; None if it has to be a server-side one."""
    members = list(members)
    if not any(member.client_assignors and not member.uses_classic_protocol for member in members):
        return None
    if not any(member.uses_classic_protocol for member in members):
        return _chosen_by_names(members)
    offers = [(member, offers_of(member)) for member in members]
    names = set.intersection(*(set(offered) for _, offered in offers))
    usable = {name for name in names if _is_read_by_all(name, offers)}
    votes = Counter(next(name for name in offered if name in usable) for _, offered in offers if usable)
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def _chosen_by_names(members: Iterable[ConsumerGroupMember]) -> str | None:
    """Return the assignor of members of the new protocol only. Each heartbeat asks, and most offer the same."""
    orders = Counter(tuple(assignor.name for assignor in member.client_assignors) for member in members)
    usable = set.intersection(*(set(order) for order in orders))
    votes: Counter[str] = Counter()
    for order, count in orders.items():
        if usable:
            votes[next(name for name in order if name in usable)] += count
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def _is_read_by_all(name: str, offers: list[tuple[ConsumerGroupMember, Offers]]) -> bool:
    """Whether every member that may compute reads what classic members declare for this assignor."""
    has_classic_metadata = any(
        member.uses_classic_protocol and offered[name].metadata for member, offered in offers
    )
    return not has_classic_metadata or all(offered[name].reads(CLASSIC_VERSION) for _, offered in offers)


def members_after(group: ConsumerGroup, new: ConsumerGroupMember) -> list[ConsumerGroupMember]:
    """Return the members after this one was added, or replaced the one of its id or instance id."""
    replaced = {new.member_id}
    if new.instance_id is not None and new.instance_id in group.static_members:
        replaced.add(group.static_members[new.instance_id])
    return [*(member for member in group.members.values() if member.member_id not in replaced), new]
