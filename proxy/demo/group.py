"""One of the two groups: its consumers, the partitions they own by their own reports, and the records they read."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from proxy.demo.history import History
from proxy.demo.records import ReadRecords, ranges
from proxy.demo.reports import Assigned, Consumed, Left, Report, Revoked


class Presence(StrEnum):
    """What a consumer is doing, according to its own callbacks."""

    JOINING = "joining"
    READING = "reading"
    STOPPED = "stopped"
    LEAVING = "leaving"
    LEFT = "left"
    KILLED = "killed"


_GONE = frozenset({Presence.LEFT, Presence.KILLED})


class Consumer(msgspec.Struct):
    """One consumer of the group. ``since_ns`` is when ``presence`` began."""

    name: str
    presence: Presence
    since_ns: int


class DemoGroup:
    """A group of the demo, called ``title`` on the screen. ``log`` gets a line for each change."""

    def __init__(self, title: str, group_id: str, partitions: int, log: Callable[[str], None]) -> None:
        self.title = title
        self.group_id = group_id
        self.partitions = range(partitions)
        self.history = History()
        self.records = ReadRecords()
        self.consumers: dict[str, Consumer] = {}
        self._log = log

    @property
    def done(self) -> int:
        """Return how many records were read."""
        return self.records.distinct

    def started(self, name: str, at_ns: int) -> None:
        """Record that a consumer was started."""
        self.consumers[name] = Consumer(name, Presence.JOINING, at_ns)

    def leaving(self, name: str, at_ns: int) -> None:
        """Record that a consumer was told to leave."""
        self._set_presence(name, Presence.LEAVING, at_ns)

    def killed(self, name: str, at_ns: int) -> None:
        """Record that a killed consumer has ended."""
        self.history.ended(name, at_ns)
        self._set_presence(name, Presence.KILLED, at_ns)
        self._log(f"{name} is dead")

    def apply_report(self, name: str, report: Report) -> None:
        """Apply a consumer's report."""
        match report:
            case Assigned(at_ns, partitions):
                self.history.assigned(name, at_ns, partitions)
                if partitions:
                    self._set_presence(name, Presence.READING, at_ns)
                    self._log(f"{name} is assigned {ranges(partitions)}")
            case Revoked(began_ns, ended_ns, partitions):
                self.history.revoked(name, began_ns, ended_ns, partitions)
                self._stopped(name, began_ns, partitions)
            case Consumed(numbers):
                self.records.read(numbers)
            case Left(at_ns):
                self.history.ended(name, at_ns)
                self._set_presence(name, Presence.LEFT, at_ns)
                self._log(f"{name} has left")

    def members(self) -> list[str]:
        """Return the consumers that should be members now."""
        return [one.name for one in self.consumers.values() if one.presence not in _GONE]

    def is_complete(self) -> bool:
        """Whether each partition is held by one consumer, and each consumer holds one at least."""
        owners = self.history.owners()
        holders = {name for names in owners.values() for name in names}
        return (
            set(owners) == set(self.partitions)
            and all(len(names) == 1 for names in owners.values())
            and holders == set(self.members())
        )

    def ownership(self) -> str:
        """Describe who owns which partitions now, for a message."""
        members = (
            f"{name} holds {ranges(self.history.held_by(name)) or 'nothing'}" for name in self.members()
        )
        return f"in {self.title} {', '.join(members) or 'there is nobody'}"

    def _stopped(self, name: str, at_ns: int, partitions: tuple[int, ...]) -> None:
        kept = self.history.held_by(name)
        what = f"keeps {ranges(kept)}" if kept else "stops"
        self._log(f"{name} gives up {ranges(partitions)} and {what}")
        if not kept and self.consumers[name].presence is Presence.READING:
            self._set_presence(name, Presence.STOPPED, at_ns)

    def _set_presence(self, name: str, presence: Presence, at_ns: int) -> None:
        consumer = self.consumers[name]
        if consumer.presence is not Presence.LEAVING or presence in _GONE:
            consumer.presence, consumer.since_ns = presence, at_ns
