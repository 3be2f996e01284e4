"""The steps of the demo. Each step waits for conditions; it pauses only so that people can look."""

import time
from collections.abc import Awaitable, Callable

import msgspec
import trio

from proxy.demo.consumers import ConsumerPool
from proxy.demo.display_model import DisplayModel, Step
from proxy.demo.failure import DemoFailed
from proxy.demo.group import DemoGroup
from proxy.demo.kafka import BrokerView, Kafka
from proxy.demo.measures import StepCost, Window, overlaps, step_cost
from proxy.demo.plan import END, FIRST_CONSUMERS, JOIN, KILL, LEAVE, MEASURED, START, Plan
from proxy.demo.producer import NumberedProducer
from proxy.demo.verdict import GroupResult, Result

_SETTLE_S = 60.0
_READ_REST_S = 30.0
_POLL_S = 0.2


class _Mark(msgspec.Struct, frozen=True):
    """When a measured step began, and which consumers were members before and after it, by group id."""

    name: str
    began_ns: int
    bystanders: dict[str, list[str]]


class Scenario:
    """Runs the steps. Each pool comes with the group type that the broker should report for its group."""

    def __init__(
        self,
        display: DisplayModel,
        kafka: Kafka,
        plan: Plan,
        producer: NumberedProducer,
        pools: tuple[tuple[ConsumerPool, str], ...],
    ) -> None:
        self._display = display
        self._kafka = kafka
        self._plan = plan
        self._producer = producer
        self._types = {pool.group.group_id: type_ for pool, type_ in pools}
        self._pools = [pool for pool, _ in pools]
        self._groups = [pool.group for pool in self._pools]
        self._marks: list[_Mark] = []

    async def run(self) -> Result:
        """Run all steps and return the result; all consumers have left the groups then.

        :raises DemoFailed: a step did not have its effect in time.
        """
        await self._step(START, self._start)
        await self._step(JOIN, self._join)
        await self._step(LEAVE, self._leave)
        await self._step(KILL, self._kill)
        self._display.begin(END)
        ended_ns = time.monotonic_ns()
        await self._read_rest()
        result = self._result(await self._described(), ended_ns)
        await self._end()
        return result

    # -- actions --------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for pool in self._pools:
            for number in range(1, FIRST_CONSUMERS + 1):
                pool.start(number)

    async def _join(self) -> None:
        for pool in self._pools:
            pool.start(FIRST_CONSUMERS + 1)

    async def _leave(self) -> None:
        for pool in self._pools:
            await pool.leave(pool.name(1))
        await self._wait_until_gone([pool.name(1) for pool in self._pools])

    async def _kill(self) -> None:
        for pool in self._pools:
            pool.kill(pool.name(2))
        await self._wait_until_gone([pool.name(2) for pool in self._pools])

    async def _end(self) -> None:
        names = self._members()
        for pool in self._pools:
            for name in pool.group.members():
                await pool.leave(name)
        await self._wait_until_gone(names)

    # -- steps ------------------------------------------------------------------------------------------------------

    async def _step(self, step: Step, act: Callable[[], Awaitable[None]]) -> None:
        self._display.begin(step)
        before = {group.group_id: set(group.members()) for group in self._groups}
        began_ns = time.monotonic_ns()
        await act()
        await self._settle()
        if step in MEASURED:
            bystanders = {
                group.group_id: sorted(before[group.group_id] & set(group.members()))
                for group in self._groups
            }
            self._marks.append(_Mark(MEASURED[step], began_ns, bystanders))
        self._display.log("both groups are stable, and every partition is being read")
        self._display.view.settled(self._display)
        await trio.sleep(self._plan.pause_s)

    async def _settle(self) -> None:
        """Wait until the consumers own all partitions and the broker reports both groups as stable."""
        with trio.move_on_after(_SETTLE_S):
            while True:
                await self._display.changes.wait_until(self._all_complete, _SETTLE_S)
                views = await self._described()
                if self._all_complete() and all(
                    views[group.group_id].state == "stable"
                    and views[group.group_id].members == len(group.members())
                    for group in self._groups
                ):
                    return
                await trio.sleep(_POLL_S)
        held = "; ".join(group.ownership() for group in self._groups)
        raise DemoFailed(f"the groups did not settle within {_SETTLE_S:g} s: {held}")

    def _all_complete(self) -> bool:
        return all(group.is_complete() for group in self._groups)

    def _members(self) -> list[str]:
        return [name for group in self._groups for name in group.members()]

    async def _wait_until_gone(self, names: list[str]) -> None:
        """Wait until these consumers have exited."""
        if not await self._display.changes.wait_until(
            lambda: not set(names) & set(self._members()), _SETTLE_S
        ):
            raise DemoFailed(
                f"waiting for {', '.join(names)} to exit, but these are still members: {', '.join(self._members())}"
            )

    async def _described(self) -> dict[str, BrokerView]:
        return await self._kafka.describe([group.group_id for group in self._groups])

    async def _read_rest(self) -> None:
        """Wait until the last records are read, up to a limit; the verdict reports missing ones."""
        self._producer.stop()
        await self._producer.finished.wait()
        await self._display.changes.wait_until(
            lambda: all(group.records.distinct >= self._producer.produced for group in self._groups),
            _READ_REST_S,
        )

    # -- results ---------------------------------------------------------------------------------------------------

    def _result(self, views: dict[str, BrokerView], ended_ns: int) -> Result:
        return Result(
            produced=self._producer.produced,
            steps=tuple(mark.name for mark in self._marks),
            groups=tuple(
                GroupResult(
                    title=group.title,
                    expected_type=self._types[group.group_id],
                    broker=views[group.group_id],
                    distinct=group.records.distinct,
                    duplicates=group.records.duplicates,
                    missing=tuple(group.records.missing(self._producer.produced)),
                    overlaps=tuple(overlaps(group.history, time.monotonic_ns())),
                    costs=self._costs(group, ended_ns),
                )
                for group in self._groups
            ),
        )

    def _costs(self, group: DemoGroup, ended_ns: int) -> tuple[StepCost, ...]:
        ends = [mark.began_ns for mark in self._marks[1:]] + [ended_ns]
        return tuple(
            step_cost(
                group.history,
                Window(mark.began_ns, end_ns),
                partitions=group.partitions,
                bystanders=mark.bystanders[group.group_id],
            )
            for mark, end_ns in zip(self._marks, ends, strict=True)
        )
