"""What an end of the Kafka client's process costs the member log: a crash, nonsense, a refusal, another topic."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest
import trio
from structlog.testing import capture_logs

from proxy.config.fleet import Fleet
from proxy.member_log import log_client
from proxy.member_log.driver import FleetDriver
from proxy.member_log.refusals import MemberLogRefused
from proxy.metrics.registry import Metrics
from translation.member_log.outputs import Health, HealthChanged, Output, ServeDecision, Taken
from translation.member_log.ownership import Ownership
from translation.member_log.records import member_key, partition_of

PARTITIONS = 2
PROPERTIES = {"bootstrap.servers": "127.0.0.1:1"}
KEY = member_key("payments", "epochgate-1")
OTHER = member_key("payments", "epochgate-2")


@pytest.fixture(autouse=True)
def _no_kafka(monkeypatch):
    monkeypatch.setattr(log_client, "MODULE", "tests.proxy.fakes.log_child")


class Replica:
    def __init__(self, fault: str) -> None:
        topic = fault.replace(" ", "-")
        self.metrics = Metrics()
        fleet = Fleet(kafka=dict(PROPERTIES), topic=topic, partitions=PARTITIONS, expires=True)
        self.driver = FleetDriver(fleet, dict(PROPERTIES), self.metrics)
        self.said: list[Output] = []
        self.refusals: list[str | None] = []
        self.changed = trio.Event()
        self.log = self.driver.log

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.driver.run(self.hear, self.refused, lambda _: None, task_status=task_status)

    def hear(self, outputs: list[Output]) -> None:
        self.said += outputs
        self.changed.set()

    def refused(self, reason: str | None) -> None:
        self.refusals.append(reason)
        self.changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        with trio.fail_after(30):
            while not holds():
                self.changed = trio.Event()
                with trio.move_on_after(0.1):
                    await self.changed.wait()

    @property
    def is_ready(self) -> bool:
        return all(self.log.health(number) is Health.READY for number in range(PARTITIONS))

    async def claim(self, key=KEY, connection: int = 1) -> ServeDecision:
        """As a call does that comes again when it is told COORDINATOR_NOT_AVAILABLE."""
        await self.until(
            lambda: self.log.claim(key, connection, trio.current_time()) is not ServeDecision.UNAVAILABLE
        )
        self.driver.carry_out()
        await self.until(
            lambda: self.log.verdict(key, connection, trio.current_time()) is not ServeDecision.PENDING
        )
        return self.log.verdict(key, connection, trio.current_time())

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", labels)

    @property
    def crashes(self) -> float | None:
        return self.metric("kafka_process_crashes_total", process="member log")


@contextlib.asynccontextmanager
async def running(fault: str = "none") -> AsyncIterator[Replica]:
    replica = Replica(fault)
    async with trio.open_nursery() as nursery:
        await nursery.start(replica.run)
        yield replica
        nursery.cancel_scope.cancel()


async def test_a_record_that_was_under_way_when_the_client_crashed_is_written_again():
    with capture_logs() as lines:
        async with running("crashes") as replica:
            await replica.until(lambda: replica.is_ready)
            first_writer = replica.driver._client.writer
            assert await replica.claim() is ServeDecision.SERVE
            assert replica.driver._client.writer != first_writer, "what it had written is unknown"
            assert replica.crashes == 1
            assert replica.refusals == [], "a crash alone takes no replica out of service"
            await replica.until(lambda: replica.is_ready)
            assert replica.driver.refused is None
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["reason"] == "it was ended by SIGSEGV"


async def test_members_go_on_and_what_was_read_is_not_read_again_when_the_client_is_killed():
    async with running() as replica:
        await replica.until(lambda: replica.is_ready)
        assert await replica.claim() is ServeDecision.SERVE
        client = replica.driver._client
        positions, pid = dict(client._positions), client.pid
        replica.said.clear()
        os.kill(pid, signal.SIGKILL)
        await replica.until(lambda: replica.crashes == 1)
        assert replica.log.claim(KEY, 1, trio.current_time()) is ServeDecision.SERVE, (
            "its connection is confirmed"
        )
        assert await replica.claim(OTHER, 2) is ServeDecision.SERVE
        assert client.pid != pid
        assert replica.log.ownership(KEY) is Ownership.SERVING
        assert Taken(KEY) not in replica.said
        for partition, (offset, _) in positions.items():
            assert client._positions[partition][0] >= offset
        assert HealthChanged(partition_of(KEY, PARTITIONS), Health.REPLAYING) not in replica.said


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("says what is no message", "it sent what is no message"),
        ("says what is nested deeply", "it sent what is no message"),
        ("says too much", "a frame of 2147483648 bytes"),
        ("says half a message", "it ended with the exit code 0"),
        ("names another partition", "it named partition 77"),
    ],
)
async def test_a_client_that_talks_nonsense_is_replaced(fault, reason):
    with capture_logs() as lines:
        async with running(fault) as replica:
            await replica.until(lambda: replica.crashes == 1)
            assert await replica.claim() is ServeDecision.SERVE
    assert any(reason in line.get("reason", "") for line in lines)


async def test_a_client_that_crashes_at_the_start_ends_the_start():
    with pytest.raises(MemberLogRefused, match="ended by SIGSEGV"), trio.fail_after(30):
        await Replica("crashes at the start").run()


async def test_a_right_that_comes_back_puts_the_replica_into_service_again():
    async with running("has no right") as replica:
        await replica.until(lambda: replica.refusals)
        assert replica.refusals == ["the member log can't be used: no right"]
        assert (replica.metric("fleet_log_refused"), replica.metric("fleet_log_away")) == (1, PARTITIONS)
        await replica.until(lambda: replica.refusals[-1] is None)
        assert replica.driver.refused is None
        assert (replica.metric("fleet_log_refused"), replica.metric("fleet_log_away")) == (0, 0)
        assert replica.crashes == 0, "the proxy ended it itself"
        assert await replica.claim() is ServeDecision.SERVE


async def test_a_replica_is_refused_while_the_next_client_is():
    async with running("is refused") as replica:
        await replica.until(lambda: replica.is_ready)
        replica.log.claim(KEY, 1, trio.current_time())
        replica.driver.carry_out()
        await replica.until(lambda: replica.refusals)
        assert replica.refusals == ["the member log can't be used: no right"]
        assert replica.driver.refused == "no right"


async def test_another_topic_is_read_from_its_beginning():
    async with running("is made again") as replica:
        await replica.until(lambda: replica.is_ready)
        replica.log.claim(KEY, 1, trio.current_time())
        replica.driver.carry_out()
        await replica.until(lambda: HealthChanged(0, Health.REPLAYING) in replica.said)
        await replica.until(lambda: replica.is_ready)
        assert replica.driver._client.topic_id == "another"
        assert await replica.claim() is ServeDecision.SERVE


async def test_nobody_is_expired_while_a_setting_of_the_topic_is_wrong():
    async with running("has wrong settings") as replica:
        await replica.until(lambda: replica.is_ready)
        assert await replica.claim() is ServeDecision.SERVE
        assert replica.driver.warning == "retention.ms=1. Change it"
        assert replica.metric("fleet_topic_settings_wrong") == 1
        assert replica.driver.refused is None
        assert not replica.log.expire(KEY, trio.current_time())
        os.kill(replica.driver._client.pid, signal.SIGKILL)
        await replica.until(lambda: replica.driver.warning is None)
        assert replica.metric("fleet_topic_settings_wrong") == 0
        await replica.until(lambda: replica.is_ready)
        assert replica.log.expire(KEY, trio.current_time())


async def test_what_is_to_be_written_at_the_end_is_written():
    async with running() as replica:
        await replica.until(lambda: replica.is_ready)
        assert await replica.claim() is ServeDecision.SERVE
        process = replica.driver._client._process._process
    assert process.returncode == 0, "it was not killed"
