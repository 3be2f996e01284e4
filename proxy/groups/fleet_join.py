"""Puts what the processes of a proxy read of the member log into their snapshot of groups: members and groups
``Elsewhere``.

Metrics are made from snapshots without it: each replica counts the members that it serves, so sums over replicas are
right.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from proxy.groups.fleet_view import FleetReading, FleetView, GroupFleet, GroupReading, PolicyView, ServedBy
from proxy.groups.snapshot import ELSEWHERE, GroupView, Progress, Snapshot, protocol_of, state_of
from proxy.runtime.time_slice import TimeSlice
from translation.member_log.records import shortened

_BY_LOG = "log"
_STATES = ("ready", "reading", "away", "refused")
"""From the best to the worst."""


async def with_fleet(snapshot: Snapshot, readings: Sequence[FleetReading]) -> Snapshot:
    """Return the snapshot with the fleet, and with the groups that only other replicas serve.

    ``readings`` has one at least. It yields to other tasks in between.
    """
    best = min(
        readings,
        key=lambda one: (_STATES.index(one.view.state), -(one.view.newest_record_at or 0.0)),
    )
    own = {one.own for one in readings}
    names = {one.id: one.name for one in best.view.replicas}
    in_log = {one.id: one for one in best.groups}
    time_slice, groups = TimeSlice(), list[GroupView]()
    for group in snapshot.groups:
        groups.append(_joined(group, in_log.pop(shortened(group.id), None), own, names))
        await time_slice.yield_if_spent()
    for one in in_log.values():
        if one.policy is not None and one.served.keys() - own:
            groups.append(_joined(_unknown_here(one, one.policy), one, own, names))
            await time_slice.yield_if_spent()
    return replace(
        snapshot,
        groups=tuple(sorted(groups, key=lambda one: one.id)),
        fleet=_merged([one.view for one in readings], best.view, own),
    )


def _merged(views: Sequence[FleetView], best: FleetView, own: set[str]) -> FleetView:
    """The log is as healthy as for the process for which it is the least; its contents are what the best has read."""
    newest = [one.newest_record_at for one in views]
    worst = max(views, key=lambda one: _STATES.index(one.state))
    return replace(
        best,
        state=worst.state,
        reason=worst.reason,
        warning=next((one.warning for one in views if one.warning is not None), None),
        partitions_away=max(one.partitions_away for one in views),
        newest_record_at=None if None in newest else min(at for at in newest if at is not None),
        unresolved=sum(one.unresolved for one in views),
        oldest_unresolved_s=max(one.oldest_unresolved_s for one in views),
        replicas=tuple(replace(one, here=one.id in own) for one in best.replicas),
    )


def _joined(
    group: GroupView, reading: GroupReading | None, own: set[str], names: dict[str, str]
) -> GroupView:
    if reading is None:
        return replace(
            group, fleet=GroupFleet(members=len(group.members), served_by=(), elsewhere=(), left_out=0)
        )
    here = {member.id for member in group.members}
    # While a member moves here the log may still name the replica that it comes from.
    elsewhere = tuple(one for one in reading.members if one.replica_id not in own and one.id not in here)
    served_by = tuple(
        ServedBy(replica=names.get(replica_id, ""), replica_id=replica_id, members=members)
        for replica_id, members in sorted(reading.served.items())
        if replica_id not in own
    )
    served = sum(one.members for one in served_by)
    fleet = GroupFleet(
        members=len(group.members) + served,
        served_by=served_by,
        elsewhere=elsewhere,
        left_out=reading.left_out,
    )
    progress = group.progress
    if served and progress.by != "broker":
        progress = replace(
            progress, done=progress.done + served, total=progress.total + served, by=_BY_LOG, elsewhere=served
        )
    state = ELSEWHERE if served and not group.members else group.state
    return replace(group, fleet=fleet, progress=progress, state=state)


def _unknown_here(reading: GroupReading, policy: PolicyView) -> GroupView:
    """A group that no process of this proxy has seen."""
    return GroupView(
        id=reading.id,
        mode=policy.mode,
        rule=policy.rule,
        assignor=policy.assignor,
        state=state_of(()),
        protocol=protocol_of(()),
        members=(),
        progress=Progress(done=0, total=0, by="proxy", translated=0, classic=0, consumer=0, elsewhere=0),
        broker=None,
        last_rebalance=None,
        rebalances=0,
        why_not=None,
        stuck=None,
        updated_at=reading.written_at,
        events=(),
        wave=policy.wave,
        owner=policy.owner,
    )
