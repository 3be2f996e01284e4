"""Snapshots of all groups, with each field's meaning: the data behind ``/api/groups``, the status page and
``epochgate status``.

Each process makes a :class:`Snapshot`; :func:`merge` combines those of several workers. Snapshots are plain data
(docs/reference/api.md), so they can be sent between processes. Fields are only added, never removed or changed.

Nothing here can be part of a reference cycle, so garbage collection is off (``gc=False``): with thousands of groups,
looking for cycles would delay clients.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from protocol_codecs.classic_clients import LOST_AT_ONCE, RACKS_IGNORED
from protocol_codecs.messages.connect_protocol import CONNECTOR
from proxy.groups.fleet_view import FleetView, GroupFleet
from proxy.groups.proof_view import ProofView
from proxy.shadow.view import ShadowView
from translation.members.member_state import MemberState
from translation.mending.unowned import Unowned
from translation.moving.move_view import MoveView
from translation.partitions import TopicPartitions
from translation.policy.client_offer import ClientOffer

VERSION = 1
EVENTS_KEPT = 120
"""Most events of one group in a snapshot, the newest ones."""

ELSEWHERE = "Elsewhere"
"""The state of a group that has members at other replicas only; they know more of it."""

MIGRATING = ("translated", "classic", "consumer")
"""The protocols of members that use the new protocol, or could."""

NOT_MIGRATING = ("share", "streams", "connect")
"""The protocols of other members."""

REBALANCING = frozenset({MemberState.PREPARE_REBALANCE, MemberState.COMPLETING_REBALANCE})
"""The states of a member that takes part in a rebalance."""


class EventView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a group; the fields are those of the journal (docs/reference/journal.md)."""

    time_us: int
    kind: str
    member: str
    client_id: str | None
    protocol: str
    generation: int
    epoch: int
    state: str
    previous_state: str
    partitions: TopicPartitions
    owned: TopicPartitions | None
    reason: str
    instance: str | None = None


class WorkerView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker of Kafka Connect as its last JoinGroup and the last assignment tell it.

    ``url`` is where its REST API listens, ``config_offset`` how far it had read the topic of configurations, -1 if it
    had read nothing. ``leader_url`` is the REST API of the worker that assigns connectors and tasks, empty before the
    first assignment; ``is_leader`` says whether that is this one. ``rejoins_at`` is when the workers join again by
    themselves, None if they do not: until then nobody runs what a lost worker ran.
    """

    url: str
    config_offset: int
    leader_url: str
    is_leader: bool
    rejoins_at: float | None


class ConnectView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group of Kafka Connect: what its workers run that are connected through this proxy.

    ``leader_url`` and ``rejoins_at`` are those of the worker that was heard last.
    """

    workers: int
    connectors: int
    tasks: int
    leader_url: str
    rejoins_at: float | None


class MemberView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member that is translated here or passes through. Times are seconds since 1970.

    ``partitions`` is everything that its client may be working on, None if that is not known. ``stuck_s`` is for how
    many seconds the member has exceeded its rebalance timeout, 0 if it has not. ``worker`` is set for workers of Kafka
    Connect. ``rebalance_timeout_ms`` and ``session_timeout_ms`` are what the client declared, -1 if it is not known.
    """

    id: str
    instance: str | None
    client_id: str | None
    client_host: str
    software: str
    protocol: str
    generation: int
    epoch: int
    state: str
    state_since: float
    updated_at: float
    partitions: TopicPartitions | None
    rebalance_timeout_ms: int
    stuck_s: float
    worker: WorkerView | None = None
    session_timeout_ms: int = -1


class BrokerView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a broker described a group when it was last polled, at ``asked_at``.

    ``type`` is ``consumer`` or ``classic``, empty after an error, which ``error`` gives.
    """

    asked_at: float
    type: str
    state: str
    classic: int
    consumer: int
    epoch: int
    members: tuple[str, ...]
    error: str


class Progress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The migration progress of a group: ``done`` of ``total`` members use the new protocol.

    ``by`` is ``broker`` if a broker reported it, ``proxy`` if it follows from the members' own calls, ``log`` if it
    follows from those and the members that the member log has at other replicas. ``translated``, ``classic``,
    ``consumer``, ``share``, ``streams`` and ``connect`` are the members that come through this proxy, ``elsewhere``
    those that do not. Only the first three are in ``total``: the others have no protocol to move to.
    """

    done: int
    total: int
    by: str
    translated: int
    classic: int
    consumer: int
    elsewhere: int
    share: int = 0
    streams: int = 0
    connect: int = 0

    @property
    def ratio(self) -> float | None:
        """The share of members that use the new protocol, from 0 to 1; None without members."""
        return self.done / self.total if self.total else None


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time during which members of a group had to rejoin; ``ended_at`` is None while it lasts."""

    started_at: float
    ended_at: float | None
    reason: str
    members: tuple[str, ...]


class GroupView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group. ``state`` is that of its members here: Empty, Rebalancing or Stable; Elsewhere if only other replicas
    have any. ``protocol`` is that of its members here (``mixed`` if they differ).

    ``rule`` is the line of the policy that holds for it, ``assignor`` the one that this line gives it; None if its
    clients' own counts. ``why_not`` says why it is not, or could not be, translated; None if it can be, or if nothing
    is known yet; ``options`` says what an operator can do about that. ``stuck`` says what is stuck; None if nothing is.
    ``fleet`` is what other replicas serve of it; None without a member log. ``client`` is what the client that joined
    last offers; None if no JoinGroup was seen. ``notes`` say what a translation changes for its clients. ``connect``
    is set if it is a group of Kafka Connect. ``move`` says how far its move by steps is; None if it does not move so.
    ``proof`` is what the live verification says; None without it, without ``events``, and if there is nothing to prove.
    ``unowned`` says which of its partitions the broker has left to nobody; None if there are none, or it is not known.
    ``shadow`` is what the new protocol would give it; None if it is not observed, or nothing is computed yet.
    ``wave`` and ``owner`` are those that its rule names; None if it names none. ``lag`` are the records that it is
    behind; None if that is not known, as without an account that may describe it.
    """

    id: str
    mode: str
    rule: str
    assignor: str | None
    state: str
    protocol: str
    members: tuple[MemberView, ...]
    progress: Progress
    broker: BrokerView | None
    last_rebalance: RebalanceView | None
    rebalances: int
    why_not: str | None
    stuck: str | None
    updated_at: float
    events: tuple[EventView, ...]
    fleet: GroupFleet | None = None
    connect: ConnectView | None = None
    client: ClientOffer | None = None
    options: str | None = None
    notes: tuple[str, ...] = ()
    move: MoveView | None = None
    proof: ProofView | None = None
    unowned: Unowned | None = None
    shadow: ShadowView | None = None
    wave: int | None = None
    owner: str | None = None
    lag: int | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One page of the snapshot. ``left_out`` counts the groups after the last one of this page.

    ``fleet`` is the member log and the replicas that share it; None without a member log. ``policy_refused`` says what
    is wrong with a policy file that is refused, one problem a line. ``control`` are the options by which commands reach
    this proxy; None if it takes none.
    """

    v: int = VERSION
    time: float
    replicas: tuple[str, ...]
    version: str
    ready: bool
    not_ready_reason: str | None
    policy_version: int
    policy_is_current: bool
    groups: tuple[GroupView, ...]
    left_out: int = 0
    policy_refused: str | None = None
    control: str | None = None
    fleet: FleetView | None = None


def progress_of(members: Iterable[MemberView], broker: BrokerView | None) -> Progress:
    """Compute the progress from the members' protocols and from what the broker reports."""
    ids: set[str] = set()
    by_protocol = dict.fromkeys(MIGRATING + NOT_MIGRATING, 0)
    for member in members:
        ids.add(member.id)
        if member.protocol in by_protocol:
            by_protocol[member.protocol] += 1
    elsewhere = 0 if broker is None else len(set(broker.members) - ids)
    if broker is None or not broker.type or by_protocol["connect"]:
        done = by_protocol["translated"] + by_protocol["consumer"]
        total = sum(by_protocol[protocol] for protocol in MIGRATING)
        return Progress(done=done, total=total, by="proxy", elsewhere=elsewhere, **by_protocol)
    total = broker.classic + broker.consumer
    return Progress(done=broker.consumer, total=total, by="broker", elsewhere=elsewhere, **by_protocol)


def connect_of(members: Sequence[MemberView]) -> ConnectView | None:
    """Sum up the workers of a group of Kafka Connect; None if it is none."""
    workers = [member for member in members if member.protocol == "connect"]
    if not workers:
        return None
    told = [member for member in workers if member.worker is not None and member.worker.leader_url]
    newest = max(told, key=lambda member: member.updated_at, default=None)
    worker = None if newest is None else newest.worker
    running = [connectors_and_tasks(member.partitions) for member in workers]
    return ConnectView(
        workers=len(workers),
        connectors=sum(connectors for connectors, _ in running),
        tasks=sum(tasks for _, tasks in running),
        leader_url="" if worker is None else worker.leader_url,
        rejoins_at=None if worker is None else worker.rejoins_at,
    )


def connectors_and_tasks(listed: TopicPartitions | None) -> tuple[int, int]:
    """Return how many connectors, and how many tasks, a worker of Kafka Connect runs."""
    connectors = sum(CONNECTOR in one.partitions for one in listed or ())
    return connectors, sum(len(one.partitions) for one in listed or ()) - connectors


def notes_of(client: ClientOffer | None, shadow: ShadowView | None) -> tuple[str, ...]:
    """Return what a translation changes for the clients of a group, as far as their offer and its shadow tell."""
    notes = (RACKS_IGNORED,) if client is not None and client.rack_aware else ()
    return (*notes, LOST_AT_ONCE) if shadow is not None and shadow.at_once is not None else notes


def state_of(members: Sequence[MemberView]) -> str:
    """Return the state of a group, derived from the states of its members."""
    if not members:
        return "Empty"
    return "Rebalancing" if any(member.state in REBALANCING for member in members) else "Stable"


def protocol_of(members: Sequence[MemberView]) -> str:
    """Return the protocol of a group's members; ``mixed`` if they use several."""
    protocols = {member.protocol for member in members}
    return "mixed" if len(protocols) > 1 else next(iter(protocols), "")


def describe_stuck(members: Iterable[MemberView], conversion: str | None = None) -> str | None:
    """Describe what is stuck: a member beyond its rebalance timeout, or else a stuck conversion. None if nothing is."""
    stuck = [member for member in members if member.stuck_s > 0]
    if stuck:
        worst = max(stuck, key=lambda member: member.stuck_s)
        who = worst.client_id or worst.id
        others = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
        return f"{who}{others} in {worst.state} {worst.stuck_s:.0f} s beyond the rebalance timeout"
    return conversion


def merge(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Merge the snapshots of several workers; each has the members whose connections it serves.

    :raises ValueError: ``snapshots`` is empty.
    """
    if not snapshots:
        raise ValueError("no snapshot to merge")
    if len(snapshots) == 1:
        return snapshots[0]
    by_id: dict[str, list[GroupView]] = {}
    for group in chain.from_iterable(one.groups for one in snapshots):
        by_id.setdefault(group.id, []).append(group)
    reasons = [one.not_ready_reason for one in snapshots if not one.ready]
    return Snapshot(
        time=max(one.time for one in snapshots),
        replicas=tuple(sorted(set(chain.from_iterable(one.replicas for one in snapshots)))),
        version=snapshots[0].version,
        ready=not reasons,
        not_ready_reason=reasons[0] if reasons else None,
        policy_version=max(one.policy_version for one in snapshots),
        policy_is_current=all(one.policy_is_current for one in snapshots),
        groups=tuple(_merged(by_id[group_id]) for group_id in sorted(by_id)),
        left_out=sum(one.left_out for one in snapshots),
        policy_refused=next((one.policy_refused for one in snapshots if one.policy_refused), None),
        control=snapshots[0].control,
    )


def _merged(parts: list[GroupView]) -> GroupView:
    if len(parts) == 1:
        return parts[0]
    newest = max(parts, key=lambda part: part.updated_at)
    members = _newest_members(parts)
    asked = [part.broker for part in parts if part.broker is not None]
    broker = max(asked, key=lambda one: one.asked_at, default=None)
    events = sorted(chain.from_iterable(part.events for part in parts), key=lambda event: event.time_us)
    stuck = [part.stuck for part in parts if part.stuck]
    shadows = (part.shadow for part in parts if part.shadow is not None)
    shadow = max(shadows, key=lambda one: (one.why_not is None, one.computed_at), default=None)
    return GroupView(
        id=newest.id,
        mode=newest.mode,
        rule=newest.rule,
        assignor=newest.assignor,
        state=state_of(members),
        protocol=protocol_of(members),
        members=members,
        progress=progress_of(members, broker),
        broker=broker,
        last_rebalance=_last_rebalance(parts),
        rebalances=sum(part.rebalances for part in parts),
        why_not=newest.why_not,
        stuck=describe_stuck(members, stuck[0] if stuck else None),
        updated_at=newest.updated_at,
        events=tuple(events[-EVENTS_KEPT:]),
        connect=connect_of(members),
        client=newest.client,
        options=newest.options,
        notes=notes_of(newest.client, shadow),
        move=newest.move,
        proof=_proof_of(parts),
        unowned=next((part.unowned for part in parts if part.unowned is not None), None),
        shadow=shadow,
        wave=newest.wave,
        owner=newest.owner,
        lag=max((part.lag for part in parts if part.lag is not None), default=None),
    )


def _proof_of(parts: Iterable[GroupView]) -> ProofView | None:
    """Return the proof of the worker that has one; the others say who it is."""
    known = [part.proof for part in parts if part.proof is not None]
    return next((one for one in known if one.certificate is not None), known[0] if known else None)


def _newest_members(parts: Iterable[GroupView]) -> tuple[MemberView, ...]:
    newest: dict[str, MemberView] = {}
    for member in chain.from_iterable(part.members for part in parts):
        known = newest.get(member.id)
        if known is None or known.updated_at < member.updated_at:
            newest[member.id] = member
    return tuple(sorted(newest.values(), key=lambda one: (one.client_id or "", one.id)))


def _last_rebalance(parts: Iterable[GroupView]) -> RebalanceView | None:
    """Merge rebalances that overlap: each worker sees its own members' part of the same one."""
    known = [part.last_rebalance for part in parts if part.last_rebalance is not None]
    if not known:
        return None
    last = max(known, key=lambda one: one.started_at)
    together = [
        one for one in known if one is last or one.ended_at is None or one.ended_at >= last.started_at
    ]
    first = min(together, key=lambda one: one.started_at)
    ends = [one.ended_at for one in together]
    return RebalanceView(
        started_at=first.started_at,
        ended_at=None if None in ends else max(end for end in ends if end is not None),
        reason=first.reason,
        members=tuple(sorted(set(chain.from_iterable(one.members for one in together)))),
    )
