"""The story that the demo tells, step by step. It waits for conditions; time alone is only spent to look."""

import time
from collections.abc import Awaitable, Callable

import msgspec
import trio

from proxy.demo.consumers import Troupe
from proxy.demo.display_model import Stage, Step
from proxy.demo.failure import DemoFailed
from proxy.demo.group import DemoGroup
from proxy.demo.kafka import BrokerView, Kafka
from proxy.demo.measures import StepCost, Window, overlaps, step_cost
from proxy.demo.plan import END, FIRST_CONSUMERS, JOIN, KILL, LEAVE, MEASURED, START, Plan
from proxy.demo.producer import NumberedProducer
from proxy.demo.verdict import GroupResult, Result

_SETTLE_S = 60.0
_READ_REST_S = 30.0
_LOOK_AGAIN_S = 0.2


class _Mark(msgspec.Struct, frozen=True):
    """When a step that is measured began, and who saw it from beginning to end, by group id."""

    name: str
    began_ns: int
    bystanders: dict[str, list[str]]


class Story:
    """One telling. Each troupe is given with the type that the broker should see in its group."""

    def __init__(
        self,
        stage: Stage,
        kafka: Kafka,
        plan: Plan,
        producer: NumberedProducer,
        troupes: tuple[tuple[Troupe, str], ...],
    ) -> None:
        self._stage = stage
        self._kafka = kafka
        self._plan = plan
        self._producer = producer
        self._types = {troupe.group.group_id: type_ for troupe, type_ in troupes}
        self._troupes = [troupe for troupe, _ in troupes]
        self._groups = [troupe.group for troupe in self._troupes]
        self._marks: list[_Mark] = []

    async def tell(self) -> Result:
        """From the beginning to the end; all consumers have left then.

        :raises DemoFailed: something did not happen in time.
        """
        await self._step(START, self._start)
        await self._step(JOIN, self._join)
        await self._step(LEAVE, self._leave)
        await self._step(KILL, self._kill)
        self._stage.begin(END)
        ended_ns = time.monotonic_ns()
        await self._read_rest()
        result = self._result(await self._described(), ended_ns)
        await self._end()
        return result

    # -- the actions ---------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for troupe in self._troupes:
            for number in range(1, FIRST_CONSUMERS + 1):
                troupe.start(number)

    async def _join(self) -> None:
        for troupe in self._troupes:
            troupe.start(FIRST_CONSUMERS + 1)

    async def _leave(self) -> None:
        for troupe in self._troupes:
            await troupe.leave(troupe.name(1))
        await self._gone([troupe.name(1) for troupe in self._troupes])

    async def _kill(self) -> None:
        for troupe in self._troupes:
            troupe.kill(troupe.name(2))
        await self._gone([troupe.name(2) for troupe in self._troupes])

    async def _end(self) -> None:
        names = self._members()
        for troupe in self._troupes:
            for name in troupe.group.members():
                await troupe.leave(name)
        await self._gone(names)

    # -- around them -----------------------------------------------------------------------------------------------

    async def _step(self, step: Step, act: Callable[[], Awaitable[None]]) -> None:
        self._stage.begin(step)
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
        self._stage.say("both groups are stable again, and every partition is read")
        self._stage.view.settled(self._stage)
        await trio.sleep(self._plan.pause_s)

    async def _settle(self) -> None:
        """Wait until the consumers hold all partitions, and the broker says that both groups are stable."""
        with trio.move_on_after(_SETTLE_S):
            while True:
                await self._stage.changes.until(self._all_complete, _SETTLE_S)
                views = await self._described()
                if self._all_complete() and all(
                    views[group.group_id].state == "stable"
                    and views[group.group_id].members == len(group.members())
                    for group in self._groups
                ):
                    return
                await trio.sleep(_LOOK_AGAIN_S)
        held = "; ".join(group.told() for group in self._groups)
        raise DemoFailed(f"the groups did not settle within {_SETTLE_S:g} s: {held}")

    def _all_complete(self) -> bool:
        return all(group.is_complete() for group in self._groups)

    def _members(self) -> list[str]:
        return [name for group in self._groups for name in group.members()]

    async def _gone(self, names: list[str]) -> None:
        """Wait until these consumers have ended."""
        if not await self._stage.changes.until(lambda: not set(names) & set(self._members()), _SETTLE_S):
            raise DemoFailed(f"of {', '.join(names)} these do not end: {', '.join(self._members())}")

    async def _described(self) -> dict[str, BrokerView]:
        return await self._kafka.describe([group.group_id for group in self._groups])

    async def _read_rest(self) -> None:
        """Wait for the last records; those that never come are the verdict's business."""
        self._producer.stop()
        await self._producer.finished.wait()
        await self._stage.changes.until(
            lambda: all(group.records.distinct >= self._producer.produced for group in self._groups),
            _READ_REST_S,
        )

    # -- what it cost ----------------------------------------------------------------------------------------------

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
