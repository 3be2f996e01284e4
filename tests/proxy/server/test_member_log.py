"""When the server starts and stops the member log, and what passes between it and the translator."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from proxy.member_log.refusals import MemberLogRefused
from proxy.server.server import Server
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import Running, config_for
from tests.proxy.fakes.translators import Scripted
from translation.actions import Action
from translation.member_log.outputs import Output, Settled
from translation.member_log.records import member_key

KEY = member_key("payments", "epochgate-1")


class Fleet:
    """A member log that says what the test says, and notes what is done with it."""

    def __init__(self, *, is_read: bool = True, refuses: str | None = None) -> None:
        self.done: list[str] = []
        self.is_read, self.refuses = is_read, refuses
        self.says: list[Output] = []
        self.may_be_read = trio.Event()
        self._scope = trio.CancelScope()
        self._tell: Callable[[list[Output]], None]

    async def run(
        self,
        said: Callable[[list[Output]], None],
        on_refused: Callable[[str | None], None],
        on_migration_policy: Callable[[str | None], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        self._tell, self.refuse, self.tell_policy = said, on_refused, on_migration_policy
        self.done.append("started")
        if self.refuses is not None:
            raise MemberLogRefused(self.refuses)
        task_status.started()
        try:
            with self._scope:
                await trio.sleep_forever()
        finally:
            self.done.append("stopped")

    async def wait_ready(self) -> bool:
        await self.may_be_read.wait()
        return self.is_read

    def carry_out(self) -> None:
        self.done.append("carried out")
        if self.says:
            said, self.says = self.says, []
            self._tell(said)

    def stop(self) -> None:
        self._scope.cancel()


class Hearing(Scripted):
    """A translator that notes what the member log says."""

    def handle_log_outputs(self, now: float, outputs: Any) -> list[Action]:
        self.told.append(("log", *outputs))
        return []


async def test_clients_can_connect_once_the_log_is_read_and_it_ends_after_them():
    fleet = Fleet()
    async with a_cluster(1) as brokers, trio.open_nursery() as nursery:
        server = Server(config_for(brokers), Hearing(), fleet=fleet)
        serving = trio.Event()

        async def run() -> None:
            await nursery.start(server.run)
            serving.set()

        nursery.start_soon(run)
        while server.health.reason != "the member log is not read yet":
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not serving.is_set()
        fleet.may_be_read.set()
        with trio.fail_after(30):
            await serving.wait()
        assert server.health.reason is None
        async with await connect(Running(server).port()) as client:
            assert await Running(server).ask(client, messages.plain(1)) is not None
            assert fleet.done == ["started"]
        server.stop()
    assert fleet.done[-1] == "stopped"


async def test_what_the_translator_asks_of_the_log_is_carried_out_after_each_event_and_answered():
    fleet, translator = Fleet(), Hearing()
    fleet.may_be_read.set()
    async with a_cluster(1) as brokers, trio.open_nursery() as nursery:
        server = Server(config_for(brokers), translator, fleet=fleet)
        await nursery.start(server.run)
        fleet.says = [Settled(KEY)]
        async with await connect(Running(server).port()) as client:
            await Running(server).ask(client, messages.heartbeat(1))
        assert [told[0] for told in translator.told[:2]] == ["request", "log"]
        assert translator.told[1] == ("log", Settled(KEY))
        # Once for the call, and once for what the log said.
        assert fleet.done[:3] == ["started", "carried out", "carried out"]
        server.stop()


async def test_a_log_that_can_not_be_used_any_more_takes_the_process_out_of_service_for_good():
    fleet = Fleet()
    fleet.may_be_read.set()
    async with a_cluster(1) as brokers, trio.open_nursery() as nursery:
        server = Server(config_for(brokers), Hearing(), fleet=fleet)
        await nursery.start(server.run)
        fleet.refuse("the member log can't be used: another topic")
        server.health.ready()
        status, body = await Running(server).get("/readyz")
        assert (status, "another topic" in body) == (503, True)
        assert server.metrics.registry.get_sample_value("epochgate_ready") == 0
        server.stop()


async def test_a_process_is_ready_without_the_log_if_it_takes_too_long():
    fleet = Fleet(is_read=False)
    fleet.may_be_read.set()
    async with a_cluster(1) as brokers, trio.open_nursery() as nursery:
        server = Server(config_for(brokers), Hearing(), fleet=fleet)
        await nursery.start(server.run)
        assert server.health.reason is None
        server.stop()


async def test_a_log_that_is_refused_ends_the_start():
    async with a_cluster(1) as brokers:
        server = Server(config_for(brokers), Hearing(), fleet=Fleet(refuses="the topic is wrong"))
        with pytest.raises(ExceptionGroup) as refused:
            await server.run()
    assert refused.group_contains(MemberLogRefused, match="the topic is wrong", depth=1)


async def test_a_process_that_is_to_stop_does_not_wait_for_the_log():
    fleet = Fleet()
    async with a_cluster(1) as brokers, trio.open_nursery() as nursery:
        server = Server(config_for(brokers), Hearing(), fleet=fleet)
        nursery.start_soon(server.run)
        while server.health.reason != "the member log is not read yet":
            await trio.lowlevel.checkpoint()
        server.stop()
    assert fleet.done == ["started", "stopped"]
