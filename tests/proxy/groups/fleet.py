"""A member log that a test fills: what one process has read of it, and of its replicas."""

from collections import Counter

import trio

from proxy.config.schema import Visibility
from proxy.groups.fleet_reading import FleetReader
from proxy.groups.fleet_view import FleetReading
from proxy.groups.group_registry import GroupRegistry
from translation.member_log.counting import Stored
from translation.member_log.member_log import MemberLog
from translation.member_log.records import Ignored, Kind, MemberRecord, Writer, member_key, partition_of
from translation.member_log.replicas import Replica, Replicas, replica_header
from translation.member_log.settings import FleetSettings

MS = 1000


class FleetLog:
    """The member log of the process ``host``, as far as it has read it. Times are seconds since 1970."""

    def __init__(self, partitions: int = 2) -> None:
        self.replica = replica("host")
        self.replicas = Replicas()
        self.refused: str | None = None
        self.warning: str | None = None
        self.ignored: Counter[Ignored] = Counter()
        self.log = MemberLog(FleetSettings(partitions=partitions), self.replica.first, 0.0)
        self._offset = 0

    def probe(self, by: Replica, at_s: float, writer: Writer | None = None) -> None:
        """A probe of a replica is read, in every partition."""
        for partition in range(self.log.settings.partitions):
            self.replicas.heard(writer or by.first, replica_header(by), round(at_s * MS))
            self.log.read_probe(partition, writer or by.first, self._next(), round(at_s * MS), 0.0)

    def ready(self, at_s: float) -> None:
        """Everything is read, and the own probes with it."""
        for partition in range(self.log.settings.partitions):
            self.log.replay_to(partition, 0, 0.0)
        self.log.outputs()
        self.probe(self.replica, at_s)

    def record(
        self, group: str, member: str, by: Replica, at_s: float, kind: Kind = Kind.SERVED, **more: object
    ) -> None:
        """A record of a replica is read, and counts."""
        key = member_key(group, member)
        offset = self._next()
        value = MemberRecord(kind, offset, first=True, server=by.server, **more)
        stored = Stored(offset, round(at_s * MS), by.first, value)
        self.log.read(partition_of(key, self.log.settings.partitions), key, stored, 0.0)

    def reader(self, registry: GroupRegistry, limits: Visibility | None = None) -> FleetReader:
        return FleetReader(self, registry, limits or Visibility())

    def read(self, registry: GroupRegistry, *, members: bool = True) -> FleetReading:
        """What the process says of the fleet."""
        return trio.run(lambda: self.reader(registry).read(members=members))

    def _next(self) -> int:
        self._offset += 1
        return self._offset


def replica(server: str) -> Replica:
    return Replica(Writer(server.encode().ljust(16, b"-")), server)
