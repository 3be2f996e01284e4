"""What must be the same in two runs of a scenario for them to be comparable: times, topic ids, ids that were made."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.image import TopicImage
from coordinator.uuids import UuidSource
from protocol_codecs import Uuid, uuid_from_text, uuid_to_text
from tests.coordinator.log_comparison import LoggedRecord

HYPHENATED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
RECORDINGS = Path(__file__).with_name("recordings")


@dataclass
class Sent:
    """One request: when it was sent, and the uuid that was made for it, if one was seen."""

    at_ms: int
    uuid: Uuid | None = None


@dataclass
class Trace:
    """A whole run."""

    sent: list[Sent] = field(default_factory=list)
    topics: list[TopicImage] = field(default_factory=list)


class OfferedUuids:
    """The uuid that was made for the request in the other run; any other one if none was seen."""

    def __init__(self, spare: UuidSource) -> None:
        self._spare = spare
        self._offered: Uuid | None = None

    def offer(self, uuid: Uuid | None) -> None:
        self._offered = uuid

    def next(self) -> Uuid:
        offered, self._offered = self._offered, None
        return self._spare.next() if offered is None else offered


@dataclass
class Recording:
    """A transcript of Kafka with its trace and the records that it wrote, kept as JSON."""

    kafka: str
    prefix: str
    trace: Trace
    transcript: list[Any]
    log: list[LoggedRecord]

    def text(self) -> str:
        """The recording as JSON, a step or a record a line."""
        content = {
            "kafka": self.kafka,
            "prefix": self.prefix,
            "sent": [[s.at_ms, s.uuid and uuid_to_text(s.uuid)] for s in self.trace.sent],
            "topics": [[uuid_to_text(t.topic_id), t.name, t.partitions] for t in self.trace.topics],
            "transcript": self.transcript,
            "log": [[key.hex(), None if value is None else value.hex()] for key, value in self.log],
        }
        lines = ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in content.items())
        return f"{{\n{lines}\n}}\n"

    def write(self, name: str) -> None:
        RECORDINGS.mkdir(exist_ok=True)
        (RECORDINGS / f"{name}.json").write_text(self.text())

    @classmethod
    def read(cls, name: str) -> "Recording":
        return cls.of((RECORDINGS / f"{name}.json").read_text())

    @classmethod
    def of(cls, text: str) -> "Recording":
        """What :meth:`text` wrote."""
        content = json.loads(text)
        sent = [Sent(at_ms, text and uuid_from_text(text)) for at_ms, text in content["sent"]]
        topics = [TopicImage(uuid_from_text(text), name, count) for text, name, count in content["topics"]]
        log = [
            (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
            for key, value in content["log"]
        ]
        return cls(content["kafka"], content["prefix"], Trace(sent, topics), content["transcript"], log)


def _lines(value: Any) -> str:
    """One step of a transcript a line, so that a changed one can be seen."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n " + ",\n ".join(json.dumps(item, sort_keys=True) for item in value) + "\n]"
