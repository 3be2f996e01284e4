"""The scenarios that Kafka and the embedded coordinator must play in the same way, step by step."""

from tests.coordinator.scenarios import (
    assignments,
    classic,
    downgrades,
    limits,
    lives,
    mixed,
    offsets,
    requests,
    share,
    static_members,
    subscriptions,
)
from tests.coordinator.scenarios.registry import SCENARIOS

__all__ = [
    "SCENARIOS",
    "assignments",
    "classic",
    "downgrades",
    "limits",
    "lives",
    "mixed",
    "offsets",
    "requests",
    "share",
    "static_members",
    "subscriptions",
]
