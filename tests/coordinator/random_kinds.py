"""The kinds of groups that random scenarios are about."""

from collections.abc import Callable

from tests.coordinator.random_scenarios import KINDS, RandomGroup
from tests.coordinator.random_share import RandomShareGroup
from tests.coordinator.script import Script

ALL_KINDS = (*KINDS, "share")


def player(kind: str, seed: int) -> Callable[[Script], None]:
    """Plays this seed's scenario of a kind."""
    return RandomShareGroup.player(seed) if kind == "share" else RandomGroup.player(seed, kind)
