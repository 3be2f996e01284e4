"""One of the two groups: its consumers, what they told of themselves, and what they have read."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from proxy.demo.history import History
from proxy.demo.records import ReadRecords, ranges
from proxy.demo.reports import Assigned, Consumed, Left, Report, Revoked


class Presence(StrEnum):
    """What a consumer does at present, as far as its own callbacks tell."""

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
    """``title`` is what the group is called on the screen; ``say`` takes each happening as a line for people."""

    def __init__(self, title: str, group_id: str, partitions: int, say: Callable[[str], None]) -> None:
        self.title = title
        self.group_id = group_id
        self.partitions = range(partitions)
        self.history = History()
        self.records = ReadRecords()
        self.consumers: dict[str, Consumer] = {}
        self._say = say

    def started(self, name: str, at_ns: int) -> None:
        """A consumer was started."""
        self.consumers[name] = Consumer(name, Presence.JOINING, at_ns)

    def leaving(self, name: str, at_ns: int) -> None:
        """A consumer was told to leave."""
        self._now(name, Presence.LEAVING, at_ns)

    def killed(self, name: str, at_ns: int) -> None:
        """A consumer was killed, and is dead."""
        self.history.ended(name, at_ns)
        self._now(name, Presence.KILLED, at_ns)
        self._say(f"{name} is dead")

    def reported(self, name: str, report: Report) -> None:
        """A consumer reported something."""
        match report:
            case Assigned(at_ns, partitions):
                self.history.assigned(name, at_ns, partitions)
                if partitions:
                    self._now(name, Presence.READING, at_ns)
                    self._say(f"{name} is assigned {ranges(partitions)}")
            case Revoked(began_ns, ended_ns, partitions):
                self.history.revoked(name, began_ns, ended_ns, partitions)
                self._stopped(name, began_ns, partitions)
            case Consumed(numbers):
                self.records.read(numbers)
            case Left(at_ns):
                self.history.ended(name, at_ns)
                self._now(name, Presence.LEFT, at_ns)
                self._say(f"{name} has left")

    def members(self) -> list[str]:
        """The consumers that should be members at present."""
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

    def told(self) -> str:
        """Who holds what at present, in words."""
        members = (
            f"{name} holds {ranges(self.history.held_by(name)) or 'nothing'}" for name in self.members()
        )
        return f"in {self.title} {', '.join(members) or 'there is nobody'}"

    def _stopped(self, name: str, at_ns: int, partitions: tuple[int, ...]) -> None:
        kept = self.history.held_by(name)
        what = f"keeps {ranges(kept)}" if kept else "stops"
        self._say(f"{name} gives up {ranges(partitions)} and {what}")
        if not kept and self.consumers[name].presence is Presence.READING:
            self._now(name, Presence.STOPPED, at_ns)

    def _now(self, name: str, presence: Presence, at_ns: int) -> None:
        consumer = self.consumers[name]
        if consumer.presence is not Presence.LEAVING or presence in _GONE:
            consumer.presence, consumer.since_ns = presence, at_ns
