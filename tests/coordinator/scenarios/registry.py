"""The scenarios that Kafka and the embedded coordinator must play in the same way, step by step."""

from collections.abc import Callable

from tests.coordinator.script import Script

Scenario = Callable[[Script], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function
