"""The embedded broker plays over the wire the scripts that a real Kafka has played, and answers as Kafka did.

The random ones are compared with the cores alone, which are compared with Kafka elsewhere.
"""

import json
import threading
from collections.abc import Callable, Iterator

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from tests.coordinator.share_partitions.play.broker_player import BrokerPlayer, Disturbed
from tests.coordinator.share_partitions.play.core_player import CorePlayer
from tests.coordinator.share_partitions.play.random_scripts import RandomScript
from tests.coordinator.share_partitions.play.scripts import SCRIPTS
from tests.coordinator.share_partitions.play.steps import Answer, Script
from tests.coordinator.share_partitions.test_against_kafka import RECORDING, story

ATTEMPTS = 3
SEEDS = [*range(100, 108), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(108, 124))]
FOR_SLOW_BROKERS = {"locks_end_on_the_last_delivery"}
"""Two fetches that follow each other have locks that end in one millisecond here."""
CONFIG = CoordinatorConfig(share_min_record_lock_duration_ms=1_000, share_assignment_interval_ms=0)


class Broker:
    """The embedded broker in a thread of its own."""

    def __init__(self) -> None:
        self._cluster = EmbeddedCluster(coordinator=CONFIG)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))
        self._thread.start()
        assert self._ready.wait(10)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        log = self._cluster.topics[topic].logs[partition]
        self._there(lambda: log.delete_before(offset))

    def end(self) -> None:
        self._there(self._stop.set)
        self._thread.join()

    def _there(self, work: Callable[[], None]) -> None:
        trio.from_thread.run_sync(work, trio_token=self._token)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with serve(self._cluster):
            self._ready.set()
            await self._stop.wait()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.end()


def on(broker: Broker, script: Script) -> list[Answer]:
    for _ in range(ATTEMPTS):
        player = BrokerPlayer(broker.bootstrap, script.settings, broker.delete_records)
        try:
            return player.play(script)
        except Disturbed:
            continue
        finally:
            player.close()
    return pytest.fail(f"disturbed {ATTEMPTS} times")


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - FOR_SLOW_BROKERS))
def test_a_script(name: str, broker: Broker):
    script = SCRIPTS[name]
    recorded = json.loads(RECORDING.read_text())[name]
    assert story(script, on(broker, script)) == story(script, recorded)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_script(seed: int, broker: Broker):
    script = RandomScript(seed).script()
    assert story(script, on(broker, script)) == story(script, CorePlayer(script.settings).play(script))
