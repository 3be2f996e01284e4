"""Where random ids come from: injected, so that a simulation with the same seed makes the same ids."""

import random
from typing import Protocol

from protocol_codecs.uuids import ZERO_UUID, Uuid, uuid_to_text


class UuidSource(Protocol):
    """Makes random uuids."""

    def next(self) -> Uuid:
        """A uuid that was not given out before."""
        ...


class SeededUuids:
    """The same uuids for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def next(self) -> Uuid:
        """The next uuid, of version 4."""
        while True:
            content = bytearray(self._random.randbytes(16))
            content[6] = content[6] & 0x0F | 0x40
            content[8] = content[8] & 0x3F | 0x80
            uuid = Uuid(bytes(content))
            if uuid != ZERO_UUID and not uuid_to_text(uuid).startswith("-"):  # as Kafka does, for its tools
                return uuid


class RandomUuids(SeededUuids):
    """Uuids from the system's own randomness."""

    def __init__(self) -> None:
        super().__init__(random.SystemRandom().getrandbits(128))


def hyphenated(uuid: Uuid) -> str:
    """A uuid as Java prints it, which is how Kafka makes member ids of classic members."""
    text = uuid.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
