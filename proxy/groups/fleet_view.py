"""What a snapshot shows of a fleet: the member log's health, its replicas, and the members that others serve.

All of it comes from the member log (docs/explanation/fleet.md), which says who serves a translated member; of members
that other replicas pass through it says nothing. Fields are only added, never removed or changed.

A :class:`FleetReading` is what one process reads; :mod:`proxy.groups.fleet_join` makes the views of them.
"""

import msgspec


class FleetReplica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that writes the member log. ``id`` is another after each start, ``name`` is for people.

    ``heard_at`` is when the newest of its probes that were read was written (it writes one every 30 s); None if
    none was read. ``silent``: that is more than 90 s before the last probe of all. ``members`` are those that
    the log says it serves. ``here``: it is a process of the proxy that answers.
    """

    id: str
    name: str
    heard_at: float | None
    silent: bool
    members: int
    here: bool


class FleetView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The member log as this proxy reads it.

    ``state`` is ``ready``, ``reading`` (not read to its end yet), ``away`` (at least one partition can't be read or
    written now) or ``refused`` (it can't be used now, although its brokers answer; ``reason`` says why).
    ``warning`` says which settings of the topic are wrong and what mends them, or which replicas may not write the log
    (``expires: auto``); no member is expired meanwhile.
    ``partitions_away`` counts the partitions that can't be used now. In all states but ``ready`` what is shown of other
    replicas may be old, and calls of clients that come from them are refused for now. ``newest_record_at`` is when the
    newest record that was read was written, in the partition where that is longest ago; None if one has none.
    ``unresolved`` counts records that were written here and not read back, the oldest ``oldest_unresolved_s`` ago.
    ``members`` are served by replicas that are not silent. ``replicas`` are those that are not silent, or serve
    a member; ``replicas_left_out`` counts those beyond 1,000. ``ignored`` counts the records of the topic that were
    skipped since the process started, by why (the label of ``epochgate_fleet_records_ignored_total``): they are none of
    this fleet's, so somebody else writes the topic.
    """

    state: str
    reason: str | None
    partitions: int
    partitions_away: int
    newest_record_at: float | None
    unresolved: int
    oldest_unresolved_s: float
    members: int
    replicas: tuple[FleetReplica, ...]
    replicas_left_out: int
    warning: str | None = None
    ignored: dict[str, int] = {}


class FleetMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member of a group as the member log has it, by a record of another replica.

    ``state`` is ``served``, ``silent`` (its replica is) or ``expiring`` (the member id is dead, the broker may still
    have the member). ``replica`` is the name of the replica that wrote the record at ``written_at``, ``replica_id`` its
    id. A served member's record is written again every few hours and at changes, so its age does not say when the
    client's last call was. ``generation`` is -1 if it is not known.
    """

    id: str
    instance: str | None
    replica: str
    replica_id: str
    state: str
    generation: int
    written_at: float


class ServedBy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many members of a group a replica serves."""

    replica: str
    replica_id: str
    members: int


class GroupFleet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a group that other replicas serve.

    ``members`` counts those here, whatever their protocol, and those in ``elsewhere`` whose state is ``served``;
    ``served_by`` counts the latter by replica. ``elsewhere`` lists members in that order: served ones first;
    ``left_out`` counts those that are not listed.
    """

    members: int
    served_by: tuple[ServedBy, ...]
    elsewhere: tuple[FleetMember, ...]
    left_out: int

    @property
    def served_elsewhere(self) -> int:
        """How many members other replicas serve."""
        return sum(one.members for one in self.served_by)


class PolicyView(msgspec.Struct, frozen=True, gc=False):
    """What the policy says of a group (:class:`proxy.groups.snapshot.GroupView`)."""

    mode: str
    rule: str
    assignor: str | None
    wave: int | None = None
    owner: str | None = None


class GroupReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group in the member log. ``served`` counts its members by the id of the replica that serves them.

    ``members`` are those whose record another replica wrote. ``policy`` is None for a group that is known here.
    """

    id: str
    served: dict[str, int]
    members: tuple[FleetMember, ...]
    left_out: int
    policy: PolicyView | None
    written_at: float


class FleetReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one process, whose replica id is ``own``, reads of the fleet."""

    own: str
    view: FleetView
    groups: tuple[GroupReading, ...]
