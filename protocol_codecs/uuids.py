"""Kafka's UUIDs (topic ids) as 16 bytes, because they are compared and hashed far more often than printed."""

import base64
import re
from typing import NewType

from protocol_codecs.kinds import UUID_SIZE

Uuid = NewType("Uuid", bytes)
"""The 16 bytes of a Kafka uuid, as they are on the wire."""

ZERO_UUID = Uuid(bytes(UUID_SIZE))
"""Kafka's "no id"."""

_TEXT_FORM = re.compile("[A-Za-z0-9_-]{22}")


def uuid_from_text(text: str) -> Uuid:
    """Parse Kafka's text form: url-safe base64 without padding, 22 characters. Raises ValueError."""
    if not _TEXT_FORM.fullmatch(text):
        raise ValueError(f"not a Kafka uuid: {text!r}")
    return Uuid(base64.urlsafe_b64decode(text + "=="))


def uuid_to_text(value: Uuid) -> str:
    """Return Kafka's text form of a UUID, as its tools print topic ids."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")
