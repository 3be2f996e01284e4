"""The steps of the rebalance story. Each step waits for conditions; it pauses only so that people can look."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import groupby
from operator import itemgetter

import msgspec
import trio

from proxy.demo.commands import preflight
from proxy.demo.consumers import ConsumerPool
from proxy.demo.display_model import DisplayModel, Step
from proxy.demo.failure import DemoFailed
from proxy.demo.group import DemoGroup
from proxy.demo.kafka import BrokerView, Kafka
from proxy.demo.measures import StepCost, Window, overlaps, step_cost, total
from proxy.demo.plan import (
    BACK,
    COOPERATIVE,
    DEPLOY,
    DEPLOY_AFTER,
    END,
    FIRST_CONSUMERS,
    JOIN,
    JOIN_AFTER,
    KILL,
    KILL_AFTER,
    MEASURED,
    MOVE,
    START,
    Plan,
)
from proxy.demo.producer import NumberedProducer
from proxy.demo.proxy import DemoProxy
from proxy.demo.verdict import GroupResult, Result

_SETTLE_S = 60.0
_READ_REST_S = 30.0
_POLL_S = 0.2
_OBSERVE = "default: observe\n"
Act = Callable[[], Awaitable[None]]


class _Mark(msgspec.Struct, frozen=True):
    """When a measured change began.

    By group id: the consumers that were members before and after it, how many records had been read again before it,
    and the type of the group after it, by the broker.
    """

    step: Step
    began_ns: int
    bystanders: dict[str, list[str]]
    read_again: dict[str, int]
    types: dict[str, str]


class Scenario:
    """Runs the steps. The first pool is the control group; the second one's group is moved by ``proxy``."""

    def __init__(
        self,
        display: DisplayModel,
        kafka: Kafka,
        plan: Plan,
        producer: NumberedProducer,
        pools: tuple[ConsumerPool, ...],
        proxy: DemoProxy,
    ) -> None:
        self._display = display
        self._kafka = kafka
        self._plan = plan
        self._producer = producer
        self._proxy = proxy
        self._pools = pools
        self._groups = [pool.group for pool in pools]
        self._moved = pools[-1].group
        self._is_moved = False
        self._marks: list[_Mark] = []

    async def run(self) -> Result:
        """Run all steps and return the result; all consumers have left the groups then.

        :raises DemoFailed: a step did not have its effect in time.
        """
        await self._step(START, self._start)
        await self._step(JOIN, partial(self._join, FIRST_CONSUMERS + 1))
        await self._step(KILL, partial(self._kill, 1))
        await self._deploy(DEPLOY, 2)
        await self._step(MOVE, self._move)
        await self._step(JOIN_AFTER, partial(self._join, 2 * FIRST_CONSUMERS + 2))
        await self._step(KILL_AFTER, partial(self._kill, FIRST_CONSUMERS + 2))
        await self._deploy(DEPLOY_AFTER, FIRST_CONSUMERS + 3)
        await self._step(BACK, self._move_back)
        self._display.begin(END)
        ended_ns = time.monotonic_ns()
        await self._read_rest()
        result = self._result(ended_ns)
        await self._end()
        return result

    # -- actions --------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for pool in self._pools:
            for number in range(1, FIRST_CONSUMERS + 1):
                pool.start(number)

    async def _join(self, number: int) -> None:
        for pool in self._pools:
            pool.start(number)

    async def _kill(self, number: int) -> None:
        names = [pool.name(number) for pool in self._pools]
        for pool, name in zip(self._pools, names, strict=True):
            pool.kill(name)
        await self._wait_until_gone(names)

    async def _deploy(self, step: Step, first: int) -> None:
        numbers = range(first, first + FIRST_CONSUMERS)
        await self._step(step, *(partial(self._replace, number) for number in numbers))

    async def _replace(self, number: int) -> None:
        names = [pool.name(number) for pool in self._pools]
        for pool, name in zip(self._pools, names, strict=True):
            await pool.leave(name)
        await self._wait_until_gone(names)
        await self._join(number + FIRST_CONSUMERS)

    async def _move(self) -> None:
        line = f"{{group: {self._moved.group_id}, mode: translate}}"
        policy = f"{_OBSERVE}rules:\n  - {line}\n"
        self._display.log(f"epochgate preflight: {await preflight(self._kafka.bootstrap, policy)}")
        self._display.log(f"policy: - {line}")
        self._proxy.set_policy(policy)
        self._is_moved = True

    async def _move_back(self) -> None:
        self._display.log(f"policy: {_OBSERVE.strip()}")
        self._proxy.set_policy(_OBSERVE)
        self._is_moved = False

    async def _end(self) -> None:
        names = self._members()
        for pool in self._pools:
            for name in pool.group.members():
                await pool.leave(name)
        await self._wait_until_gone(names)

    # -- steps ------------------------------------------------------------------------------------------------------

    async def _step(self, step: Step, *acts: Act) -> None:
        self._display.begin(step)
        for act in acts:
            before = {group.group_id: set(group.members()) for group in self._groups}
            read_again = {group.group_id: group.records.duplicates for group in self._groups}
            began_ns = time.monotonic_ns()
            await act()
            views = await self._settle()
            if step in MEASURED:
                bystanders = {
                    group.group_id: sorted(before[group.group_id] & set(group.members()))
                    for group in self._groups
                }
                types = {group_id: view.type for group_id, view in views.items()}
                self._marks.append(_Mark(step, began_ns, bystanders, read_again, types))
            self._display.log("both groups are stable, and every partition is being read")
        self._display.view.settled(self._display)
        await trio.sleep(self._plan.pause_s)

    async def _settle(self) -> dict[str, BrokerView]:
        """Wait until the groups are settled and have read what was produced until then; return the broker's view."""
        views: dict[str, BrokerView] = {}
        with trio.move_on_after(_SETTLE_S):
            while True:
                await self._display.changes.wait_until(self._all_complete, _SETTLE_S)
                views = await self._described()
                if self._all_complete() and all(self._is_settled(group, views) for group in self._groups):
                    break
                await trio.sleep(_POLL_S)
            produced = self._producer.produced
            await self._display.changes.wait_until(
                lambda: not any(group.records.missing(produced) for group in self._groups), _SETTLE_S
            )
            return views
        held = "; ".join(group.ownership() for group in self._groups)
        types = ", ".join(f"{group.title} is {views[group.group_id].type}" for group in self._groups if views)
        raise DemoFailed(f"the groups did not settle within {_SETTLE_S:g} s: {types}; {held}")

    def _all_complete(self) -> bool:
        return all(group.is_complete() for group in self._groups)

    def _is_settled(self, group: DemoGroup, views: dict[str, BrokerView]) -> bool:
        """Whether the broker describes a stable group of all these members, each moved if the group is to be."""
        names, moved = group.members(), group is self._moved and self._is_moved
        expected = BrokerView("consumer" if moved else "classic", "stable", len(names))
        return views[group.group_id] == expected and (
            group is not self._moved
            or all(self._proxy.translates(group.group_id, name) is moved for name in names)
        )

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

    def _result(self, ended_ns: int) -> Result:
        return Result(
            produced=self._producer.produced,
            is_silent=self._plan.assignor != COOPERATIVE,
            steps=tuple(MEASURED.values()),
            groups=tuple(
                GroupResult(
                    title=group.title,
                    types=tuple({mark.step: mark.types[group.group_id] for mark in self._marks}.values()),
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
        ends = [(mark.began_ns, mark.read_again[group.group_id]) for mark in self._marks[1:]]
        ends.append((ended_ns, group.records.duplicates))
        costs = [
            (
                mark.step,
                step_cost(
                    group.history,
                    Window(mark.began_ns, end_ns),
                    partitions=group.partitions,
                    bystanders=mark.bystanders[group.group_id],
                    read_again=read_again - mark.read_again[group.group_id],
                ),
            )
            for mark, (end_ns, read_again) in zip(self._marks, ends, strict=True)
        ]
        return tuple(total([cost for _, cost in same]) for _, same in groupby(costs, key=itemgetter(0)))
