"""The share group: what was delivered to whom, how often, and what the broker has taken note of."""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from proxy.demo.records import ReadRecords, ranges
from proxy.demo.reports import Acknowledged, Delivered, Left, Report
from proxy.demo.share.plan import KAFKAS_DELIVERY_LIMIT


class Presence(StrEnum):
    """What a consumer is doing, according to its own reports."""

    JOINING = "joining"
    WORKING = "working"
    HOLDING = "stuck"
    LEFT = "left"
    KILLED = "killed"


_SHOWN = 5
"""So many numbers of records are in a line."""
_GONE = frozenset({Presence.LEFT, Presence.KILLED})


class ShareConsumer(msgspec.Struct):
    """One consumer of the group, and how many records it has accepted and released."""

    name: str
    presence: Presence = Presence.JOINING
    accepted: int = 0
    released: int = 0


class DemoShareGroup:
    """The group. ``log`` gets a line for what is worth one."""

    def __init__(self, group_id: str, log: Callable[[str], None]) -> None:
        self.title = "the share group"
        self.group_id = group_id
        self.records = ReadRecords()
        """The records that were accepted."""
        self.consumers: dict[str, ShareConsumer] = {}
        self.deliveries: Counter[int] = Counter()
        """How often each record was delivered, by its number."""
        self.released: Counter[int] = Counter()
        self.delivery_limit = KAFKAS_DELIVERY_LIMIT
        """After so many deliveries the broker gives a record up."""
        self.held: tuple[int, ...] = ()
        """The records of the consumer that was killed, at its end."""
        self.died_ns = 0
        self._delivered_again_ns: dict[int, int] = {}
        self._log = log

    @property
    def done(self) -> int:
        """Return how many records were accepted, or given up."""
        given_up = (number for number, times in self.released.items() if times >= self.delivery_limit)
        return self.records.distinct + sum(not self.is_accepted(number) for number in given_up)

    @property
    def taken_over_after_ms(self) -> float:
        """Return how long the last of the killed consumer's records waited for its next delivery."""
        return max((at - self.died_ns for at in self._delivered_again_ns.values()), default=0) / 1e6

    def started(self, name: str) -> None:
        """Record that a consumer was started."""
        self.consumers[name] = ShareConsumer(name)

    def killed(self, name: str, at_ns: int) -> None:
        """Record that a killed consumer has ended."""
        self.died_ns = at_ns
        self.consumers[name].presence = Presence.KILLED
        self._log(f"{name} is dead; it had {len(self.held)} records")

    def apply_report(self, name: str, report: Report) -> None:
        """Apply a consumer's report."""
        consumer = self.consumers[name]
        match report:
            case Delivered(at_ns, records, holds):
                consumer.presence = Presence.HOLDING if holds else Presence.WORKING
                if holds:
                    self.held = tuple(number for number, _ in records)
                    self._log(f"{name} works on {len(records)} records and does not come to an end")
                for number, delivery in records:
                    self.deliveries[number] = max(delivery, self.deliveries[number])
                    if not holds and self.died_ns and number in self.held:
                        self._delivered_again_ns.setdefault(number, at_ns)
            case Acknowledged(_, accepted, released):
                consumer.accepted += len(accepted)
                consumer.released += len(released)
                self.records.read(accepted)
                self.released.update(released)
                self._log_releases(name, released)
            case Left():
                consumer.presence = Presence.LEFT
                self._log(f"{name} has left")

    def _log_releases(self, name: str, numbers: Sequence[int]) -> None:
        if numbers:
            which = ranges(numbers[:_SHOWN]) + (
                f" and {len(numbers) - _SHOWN} more" if numbers[_SHOWN:] else ""
            )
            deliveries = ranges({self.deliveries[number] for number in numbers})
            self._log(f"{name} releases {which}, delivery {deliveries}")

    def members(self) -> list[str]:
        """Return the consumers that should be members now."""
        return [one.name for one in self.consumers.values() if one.presence not in _GONE]

    def is_accepted(self, number: int) -> bool:
        """Whether a record was accepted."""
        return self.records.has(number)

    def came_again(self) -> int:
        """Return how many records that were released were accepted later."""
        return sum(self.is_accepted(number) for number in self.released)

    def all_work(self) -> bool:
        """Whether each member has accepted records."""
        return all(self.consumers[name].accepted for name in self.members())
