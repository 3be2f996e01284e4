"""Member ids as this proxy makes them."""

import base64
import uuid


def kafka_uuid() -> str:
    """A random UUID as Kafka prints it: 22 url-safe characters, never beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
