"""Sources of random ids: injected, so that a simulation with the same seed gets the same ids."""

import random
from typing import Protocol

from protocol_codecs.uuids import ZERO_UUID, Uuid, uuid_to_text


class UuidSource(Protocol):
    """Makes random uuids."""

    def next(self) -> Uuid:
        """Return an unused UUID."""
        ...


class SeededUuids:
    """Generates the same UUIDs for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def next(self) -> Uuid:
        """Return the next UUID, of version 4."""
        while True:
            content = bytearray(self._random.randbytes(16))
            content[6] = content[6] & 0x0F | 0x40
            content[8] = content[8] & 0x3F | 0x80
            uuid = Uuid(bytes(content))
            if uuid != ZERO_UUID and not uuid_to_text(uuid).startswith("-"):  # as Kafka does, for its tools
                return uuid


class RandomUuids(SeededUuids):
    """Generates UUIDs from the operating system's random source."""

    def __init__(self) -> None:
        super().__init__(random.SystemRandom().getrandbits(128))


def hyphenated(uuid: Uuid) -> str:
    """Format a UUID as Java does, which is the form of the member ids that Kafka gives to classic members."""
    text = uuid.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
