"""With the experiment on, groups that declare no client-side assignors are served, and logged, as without it."""

import msgspec
import pytest

from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.random_scenarios import RandomGroup
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.script import Script
from tests.coordinator.trace import Recording

ON = msgspec.structs.replace(CONFIG, experimental_client_assignors=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_kafka_is_the_same(name: str):
    recording = Recording.read(name)
    logs = []
    for config in (CONFIG, ON):
        backend = CoreBackend(recording.trace, config=config)
        script = Script(backend, recording.prefix)
        SCENARIOS[name](script)
        assert script.transcript == recording.transcript
        logs.append(backend.log.batches)
    assert logs[0] == logs[1]


@pytest.mark.parametrize("seed", range(10))
def test_a_random_group_is_the_same(seed: int):
    logs = []
    for config in (CONFIG, ON):
        backend = CoreBackend(config=config)
        script = Script(backend, "random")
        RandomGroup(script, seed).play()
        logs.append((script.transcript, backend.log.batches))
    assert logs[0] == logs[1]
