"""What the rules go by: an event of the journal, and its place in the order."""

from typing import NamedTuple

import msgspec

from pipeline.rules.losses import Process

NO_GENERATION = -1
"""The generation of an event that has none."""

TRANSLATED = "translated"
"""The protocol of a member that the proxy translates; its generations rise with its member epochs."""

Json = str | msgspec.Raw
"""JSON text, or a part of a line."""


class Event(NamedTuple):
    """The fields of an event that the rules need; a :class:`~pipeline.rules.lines.Line` with all of them will do."""

    time_us: int
    replica: str
    boot: str
    seq: int
    kind: str
    member: str
    instance: str | None
    protocol: str | None
    generation: int
    owned: Json | None

    @property
    def process(self) -> Process:
        """Return the process that wrote it."""
        return self.replica, self.boot

    @property
    def name(self) -> str:
        """Return the event's identity as text."""
        return f"{self.replica}.{self.boot}.{self.seq}"


Keyed = tuple[int, str, str, int, Event]
"""An event behind its place in the order: time_us, replica, boot and seq."""


def text_of(json: Json) -> str:
    """Return JSON as text."""
    return json if isinstance(json, str) else bytes(json).decode()
