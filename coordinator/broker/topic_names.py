"""The rule for topic names, as Kafka has it."""

import re

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None
