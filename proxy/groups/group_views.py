"""Makes the views of a snapshot from the records of groups."""

from proxy.groups.group_records import MICRO, GroupRecord, MemberRecord, Rebalance
from proxy.groups.snapshot import (
    EventView,
    GroupView,
    MemberView,
    RebalanceView,
    WorkerView,
    connect_of,
    describe_stuck,
    notes_of,
    progress_of,
    protocol_of,
    state_of,
)
from translation.actions import Event
from translation.reasons import options


def view_of(group: GroupRecord, now_us: int, *, events: bool = True) -> GroupView:
    """Make the view of one group."""
    members = tuple(
        sorted(
            (member_view(member, now_us) for member in group.members.values()),
            key=lambda one: (one.client_id or "", one.id),
        )
    )
    rebalance, lookups = group.rebalance, group.lookups
    return GroupView(
        id=group.id,
        mode=group.mode,
        rule=group.rule,
        assignor=group.assignor,
        state=state_of(members),
        protocol=protocol_of(members),
        members=members,
        progress=progress_of(members, group.broker),
        broker=group.broker,
        last_rebalance=None if rebalance is None else _rebalance_view(rebalance),
        rebalances=group.rebalances,
        why_not=group.why_not,
        stuck=describe_stuck(members, group.conversion_stuck(now_us)),
        updated_at=group.updated_us / MICRO,
        events=tuple(_event_view(time_us, event) for time_us, event in group.events) if events else (),
        connect=connect_of(members),
        client=group.offer,
        options=options(group.why_not),
        move=lookups.move_of(group.id),
        proof=lookups.proof_of(group.id) if events else None,
        unowned=lookups.unowned_of(group.id),
        shadow=group.shadow,
        wave=group.wave,
        owner=group.owner,
        lag=lookups.lag_of(group.id),
        notes=notes_of(group.offer, group.shadow),
    )


def member_view(member: MemberRecord, now_us: int) -> MemberView:
    """Make the view of one member."""
    return MemberView(
        id=member.id,
        instance=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        software=member.software,
        protocol=member.protocol,
        generation=member.generation,
        epoch=member.epoch,
        state=member.state,
        state_since=member.state_since_us / MICRO,
        updated_at=member.updated_us / MICRO,
        partitions=member.owned,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        stuck_s=member.stuck_s(now_us),
        worker=_worker_view(member, now_us),
        session_timeout_ms=member.session_timeout_ms,
    )


def _worker_view(member: MemberRecord, now_us: int) -> WorkerView | None:
    worker, rejoins_at_us = member.worker, member.rejoins_at_us(now_us)
    if worker is None:
        return None
    return WorkerView(
        url=worker.url,
        config_offset=worker.config_offset,
        leader_url=worker.leader_url,
        is_leader=bool(worker.leader) and worker.leader == member.id,
        rejoins_at=None if rejoins_at_us is None else rejoins_at_us / MICRO,
    )


def _rebalance_view(rebalance: Rebalance) -> RebalanceView:
    return RebalanceView(
        started_at=rebalance.started_us / MICRO,
        ended_at=None if rebalance.ended_us is None else rebalance.ended_us / MICRO,
        reason=rebalance.reason,
        members=tuple(sorted(rebalance.members)),
    )


def _event_view(time_us: int, event: Event) -> EventView:
    return EventView(
        time_us=time_us,
        kind=event.kind,
        member=event.member_id,
        client_id=event.client_id,
        protocol=event.protocol,
        generation=event.generation,
        epoch=event.epoch,
        state=event.state,
        previous_state=event.previous_state,
        partitions=event.partitions,
        owned=event.owned,
        reason=event.reason,
        instance=event.instance_id,
    )
