"""Bounds the names that a journal gives and that something is counted by: a forged journal may have any number of them.

What has a name beyond the first :data:`MOST_NAMES` is counted as :data:`OTHERS`, so the counts still add up.
"""

from collections.abc import Mapping
from typing import Any

MOST_NAMES = 50
"""Kafka's errors for a commit are fewer than half of that, and so are the reasons why a line is no event."""

LONGEST_NAME = 200
OTHERS = "(others)"


def counted_as(name: str, known: Mapping[str, Any]) -> str:
    """Return the name to count by: what is beyond :data:`LONGEST_NAME` characters is cut off."""
    if name in known:
        return name
    name = name[:LONGEST_NAME]
    return name if name in known or len(known) < MOST_NAMES else OTHERS
