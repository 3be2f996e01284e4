"""What every kind of test shares."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import Phase, settings

pytest_plugins = (
    "pytester",
    "tests.plugins.skip_report",
    "tests.plugins.tiers",
    "tests.plugins.durations",
)

# The same examples in every run, so that what is red here is red elsewhere; no deadline, because shared
# machines pause. Other examples: `pytest --hypothesis-profile=default --hypothesis-seed=...`.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True, database=None)
# What is expected to fail is not made small, which may take minutes.
settings.register_profile(
    "unshrunk", settings.get_profile("steady"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Soaks first: they are the longest, and beside each other both cores have time for what they watch."""
    items.sort(key=lambda item: item.get_closest_marker("soak") is None)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """What a test's commands configure for logging ends with the test."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level
