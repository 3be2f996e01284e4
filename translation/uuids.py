"""Member ids as this proxy makes them, and how to tell them from a classic coordinator's."""

import base64
import uuid

_LENGTH = 22


def kafka_uuid() -> str:
    """A random UUID as Kafka prints it: 22 url-safe characters, never beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def is_own_member_id(member_id: str) -> bool:
    """Whether the proxy made this id. A classic coordinator's is the client id, a dash and 36 characters."""
    return len(member_id) == _LENGTH
