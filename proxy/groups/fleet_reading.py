"""Reads the member log of one process for a snapshot, when somebody asks; no call of a client waits for that.

It goes through all members of the log in time slices. What is listed is within the bounds of ``visibility``.
"""

from collections import Counter
from typing import Protocol

import trio

from proxy.config.schema import Visibility
from proxy.groups.event_bounds import truncate
from proxy.groups.fleet_view import (
    FleetMember,
    FleetReading,
    FleetReplica,
    FleetView,
    GroupReading,
    PolicyView,
)
from proxy.groups.group_registry import GroupRegistry
from proxy.runtime.time_slice import TimeSlice
from translation.member_log.counting import Stored
from translation.member_log.fleet_counts import MemberState, state_of, writer_of
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Health
from translation.member_log.records import Ignored, Kind, MemberKey
from translation.member_log.replicas import Heard, Replica, Replicas

_REPLICAS_SHOWN = 1_000
_ORDER = {state: number for number, state in enumerate(MemberState)}


class LogSource(Protocol):
    """The member log of a process, with what is known beside it."""

    log: MemberLog
    replicas: Replicas
    refused: str | None
    ignored: Counter[Ignored]

    @property
    def warning(self) -> str | None:
        """Why no member is expired although the configuration says so."""
        ...

    @property
    def replica(self) -> Replica:
        """This process."""
        ...


class _Group:
    """What is counted of a group so far."""

    __slots__ = ("listed", "served", "written_ms")

    def __init__(self) -> None:
        self.served: dict[str, int] = {}
        self.listed: list[tuple[int, MemberKey, Stored, MemberState, Heard]] = []
        self.written_ms = 0


class FleetReader:
    """Reads the member log of this process. ``registry`` has the groups that are known here."""

    def __init__(self, source: LogSource, registry: GroupRegistry, limits: Visibility) -> None:
        self._source = source
        self._registry = registry
        self._limits = limits

    async def read(self, *, members: bool) -> FleetReading:
        """Return what the log has now. ``members``: with the members that others serve, not only their counts.

        A group is in it if a replica that is not silent serves a member of it, or if it is known here.
        """
        time_slice = TimeSlice()
        groups: dict[str, _Group] = {}
        replicas: dict[str, tuple[Heard, int]] = {}
        for heard in self._source.replicas.all():
            if not self._source.replicas.is_silent(heard):
                replicas[heard.replica.first.hex()] = heard, 0
        own = self._source.replica.first.hex()
        for partition in range(self._source.log.settings.partitions):
            for key, stored in self._source.log.counted(partition):
                self._count(groups, replicas, key, stored, members=members)
                await time_slice.yield_if_spent()
        shown: list[GroupReading] = []
        budget = self._limits.members
        for group_id in sorted(groups):
            if len(shown) == self._limits.groups:
                break
            group = groups.pop(group_id)  # freed here: all at once would take long
            is_known = group_id in self._registry.groups
            if (group.served or is_known) and len(group_id) <= self._limits.id_max_chars:
                most = min(budget, self._limits.members_of_group)
                policy = None if is_known else self._policy(group_id)
                shown.append(self._group(group_id, group, policy, most))
                budget -= len(shown[-1].members)
            await time_slice.yield_if_spent()
        return FleetReading(own=own, view=self._view(replicas, own), groups=tuple(shown))

    def _count(
        self,
        groups: dict[str, _Group],
        replicas: dict[str, tuple[Heard, int]],
        key: MemberKey,
        stored: Stored,
        *,
        members: bool,
    ) -> None:
        source = self._source
        heard = writer_of(source.log, source.replicas, source.replica, stored.writer, stored.record.server)
        state = state_of(stored.record.kind, source.replicas, heard)
        if state is None:
            return
        group = groups.get(key.group_id)
        if group is None:
            group = groups[key.group_id] = _Group()
        if stored.record.kind is Kind.SERVED:
            replica_id = heard.replica.first.hex()
            _, serves = replicas.get(replica_id, (heard, 0))
            replicas[replica_id] = heard, serves + 1
            if state is MemberState.SERVED:
                group.served[replica_id] = group.served.get(replica_id, 0) + 1
        group.written_ms = max(group.written_ms, stored.appended_ms)
        if members and heard.replica.first != source.replica.first:
            group.listed.append((_ORDER[state], key, stored, state, heard))

    def _policy(self, group_id: str) -> PolicyView:
        rule, label = self._registry.rule_of(group_id)
        return PolicyView(rule.mode, label, rule.assignor, rule.wave, rule.owner)

    def _group(self, group_id: str, group: _Group, policy: PolicyView | None, most: int) -> GroupReading:
        listed = sorted(group.listed, key=lambda one: one[:2])
        return GroupReading(
            id=group_id,
            served=group.served,
            members=tuple(self._member(*one[1:]) for one in listed[:most]),
            left_out=max(0, len(listed) - most),
            policy=policy,
            written_at=group.written_ms / 1000,
        )

    def _member(self, key: MemberKey, stored: Stored, state: MemberState, heard: Heard) -> FleetMember:
        record = stored.record
        return FleetMember(
            id=self._short(key.member_id),
            instance=None if record.instance_id is None else self._short(record.instance_id),
            replica=self._short(heard.replica.server),
            replica_id=heard.replica.first.hex(),
            state=state.value,
            generation=record.generation,
            written_at=stored.appended_ms / 1000,
        )

    def _short(self, text: str) -> str:
        return truncate(text, self._limits.id_max_chars)

    def _view(self, replicas: dict[str, tuple[Heard, int]], own: str) -> FleetView:
        source = self._source
        log = source.log
        partitions = range(log.settings.partitions)
        healths = [log.health(number) for number in partitions]
        state = "ready"
        if source.refused is not None:
            state = "refused"
        elif Health.AWAY in healths:
            state = "away"
        elif Health.REPLAYING in healths:
            state = "reading"
        newest_ms = min(log.newest_ms(number) for number in partitions)
        found = [
            FleetReplica(
                id=replica_id,
                name=self._short(heard.replica.server),
                heard_at=heard.at_ms / 1000 if heard.at_ms else None,
                silent=source.replicas.is_silent(heard),
                members=serves,
                here=replica_id == own,
            )
            for replica_id, (heard, serves) in replicas.items()
        ]
        found.sort(key=lambda one: (one.silent, one.name, one.id))
        return FleetView(
            state=state,
            reason=source.refused,
            warning=source.warning,
            partitions=len(healths),
            partitions_away=len(healths)
            if source.refused is not None
            else sum(one is not Health.READY for one in healths),
            newest_record_at=newest_ms / 1000 if newest_ms else None,
            unresolved=log.unresolved(),
            oldest_unresolved_s=log.oldest_unresolved_s(trio.current_time()),
            members=sum(one.members for one in found if not one.silent),
            replicas=tuple(found[:_REPLICAS_SHOWN]),
            replicas_left_out=max(0, len(found) - _REPLICAS_SHOWN),
            ignored={str(reason): number for reason, number in sorted(source.ignored.items())},
        )
