"""Events as tests tell them."""

from translation.actions import Event, EventKind
from translation.partitions import TopicPartitions, TopicPartitionSet

MICRO = 1_000_000


def topic(*indexes: int, name: str = "t") -> TopicPartitions:
    return (TopicPartitionSet(name, None, indexes),) if indexes else ()


def event(kind: EventKind, member: str = "m-1", group: str = "g", **fields) -> Event:
    told = {"protocol": "translated", "client_id": f"app-{member}", "state": "Stable"} | fields
    return Event(kind=kind, group_id=group, member_id=member, **told)


def changed(before: str, after: str, member: str = "m-1", **fields) -> Event:
    return event(EventKind.STATE_CHANGED, member, previous_state=before, state=after, **fields)


def life(
    member: str = "m-1", *, protocol: str = "translated", owned: TopicPartitions = (), **fields
) -> list[Event]:
    """A member joins and is assigned."""
    common = {"member": member, "protocol": protocol} | fields
    return [
        changed("Absent", "CompletingRebalance", owned=(), **common),
        event(EventKind.JOINED, state="CompletingRebalance", owned=(), **common),
        event(EventKind.ASSIGNED, state="CompletingRebalance", partitions=owned, owned=owned, **common),
        changed("CompletingRebalance", "Stable", owned=owned, **common),
    ]
