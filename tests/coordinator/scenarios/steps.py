"""Steps that several scenarios take."""

from tests.coordinator.script import Classic, Script


def all_join(*members: Classic) -> None:
    """All members join (with their ids), and the answers are taken when all have come."""
    pending = [(member, member.send_join()) for member in members]
    for member, join in pending:
        member.joined(join)


def all_sync(assignments: dict[str, dict[str, list[int]]], *members: Classic) -> None:
    """All members sync; the leader brings assignments, which are given by name."""
    by_id = {member.member_id: assignments.get(member.name, {}) for member in members}
    ordered = sorted(members, key=lambda member: member.is_leader)
    pending = [(member, member.send_sync(by_id if member.is_leader else None)) for member in ordered]
    for member, sync in pending:
        member.synced(sync)


def stable_pair(s: Script, static: str | None = None, **options: object) -> tuple[Classic, Classic]:
    """A stable classic group of two, A with 0 and 1, B with 2 and 3; ``static`` is the instance id of A."""
    a, b = s.classic("A", instance_id=static, **options), s.classic("B", **options)
    a.join()
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    b.ask_member_id()
    waiting = b.send_join()
    a.beat()
    all_join(a)
    b.joined(waiting)
    all_sync({"A": {"foo": [0, 1]}, "B": {"foo": [2, 3]}}, a, b)
    return a, b


def restart_static_member(s: Script, other: Classic) -> None:
    """A new process of the member with instance id "one" joins and syncs; both go on in the same generation."""
    again = s.classic("A2", instance_id="one")
    again.joined(again.send_join())
    again.sync()
    other.beat()
    again.beat()
    s.describe_classic()
