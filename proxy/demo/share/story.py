"""Runs the story: topic, proxy, producer and consumers, its steps, and removes everything again."""

import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import trio

from proxy.demo.display_model import DisplayModel, Step, View
from proxy.demo.failure import DemoFailed
from proxy.demo.kafka import Kafka
from proxy.demo.plan import Plan
from proxy.demo.process import ConsumerProcess
from proxy.demo.producer import NumberedProducer
from proxy.demo.proxy import DemoProxy
from proxy.demo.reports import Report, ShareConsumerSettings
from proxy.demo.share import plan as steps
from proxy.demo.share.broker import ShareGroupAtBroker
from proxy.demo.share.group import DemoShareGroup
from proxy.demo.share.result import ShareResult, consumers_table

_SETTLE_S = 60.0
_POLL_S = 0.2
_REFRESH_S = 0.25
_CLEAN_UP_S = 10.0
_SEEN_AGAIN = 3
"""So many records have to be released and to come again before the story goes on."""
_MOST_RECORDS = 100
"""``max.poll.records``: what a consumer has at a time."""
_AHEAD_S = 1.0
"""The record that can't be processed is this far ahead of the last one produced."""


async def run_on_cluster(bootstrap: str, source: str, plan: Plan, view: View) -> ShareResult:
    """Run the story on the cluster at ``bootstrap`` and return its result.

    :raises ExceptionGroup: with a :class:`~proxy.demo.failure.DemoFailed`, if a step could not be carried out.
    """
    kafka = Kafka(bootstrap)
    node_ids = await kafka.node_ids()
    topic = f"epochgate-demo-{uuid4().hex[:8]}"
    display = DisplayModel(source, len(steps.STEPS), view)
    group = DemoShareGroup(f"{topic}-share", display.log)
    display.groups = (group,)
    display.tables = lambda: (consumers_table(group),)
    at_broker = ShareGroupAtBroker(bootstrap, group.group_id)
    await kafka.create_topic(topic, plan.partitions)
    try:
        group.delivery_limit = await _configure(at_broker)
        with view.showing(display):
            async with trio.open_nursery() as outer:
                demo_proxy = DemoProxy(bootstrap, node_ids)
                await outer.start(demo_proxy.run)
                outer.start_soon(_refresh, display)
                async with trio.open_nursery() as nursery:
                    producer = NumberedProducer(
                        bootstrap, topic, partitions=plan.partitions, per_second=plan.records_per_second
                    )
                    display.produced = lambda: producer.produced
                    nursery.start_soon(producer.run)
                    story = ShareStory(
                        display, group, at_broker, plan, producer, demo_proxy.bootstrap, topic, nursery
                    )
                    result = await story.run()
                outer.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLEAN_UP_S):
            try:
                await at_broker.remove_members()
            finally:
                await kafka.remove(topic, [group.group_id])
    return result


async def _configure(group: ShareGroupAtBroker) -> int:
    """Configure the group; return its delivery limit, which groups can't choose before Kafka 4.3."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(steps.LOCK_S * 1000),
    }
    await group.configure(settings)
    try:
        await group.configure({"share.delivery.count.limit": str(steps.DELIVERY_LIMIT)})
    except DemoFailed:
        return steps.KAFKAS_DELIVERY_LIMIT
    return steps.DELIVERY_LIMIT


async def _refresh(display: DisplayModel) -> None:
    while True:
        display.view.refresh(display)
        await trio.sleep(_REFRESH_S)


class ShareStory:
    """The steps. Each waits for what it is to show."""

    def __init__(
        self,
        display: DisplayModel,
        group: DemoShareGroup,
        at_broker: ShareGroupAtBroker,
        plan: Plan,
        producer: NumberedProducer,
        bootstrap: str,
        topic: str,
        nursery: trio.Nursery,
    ) -> None:
        self._display = display
        self._group = group
        self._at_broker = at_broker
        self._plan = plan
        self._producer = producer
        self._bootstrap = bootstrap
        self._topic = topic
        self._nursery = nursery
        self._processes: dict[str, ConsumerProcess] = {}
        self._poison = -1

    async def run(self) -> ShareResult:
        """Run all steps and return the result; all consumers have left the group then.

        :raises DemoFailed: a step did not have its effect in time.
        """
        group = self._group
        await self._step(steps.START, self._start, group.all_work, "each consumer has processed records")
        await self._step(
            steps.FAIL,
            self._fail,
            lambda: group.came_again() >= _SEEN_AGAIN,
            f"{_SEEN_AGAIN} records that were released have been processed after all",
        )
        await self._step(
            steps.KILL,
            self._kill,
            lambda: bool(group.held) and all(map(group.is_accepted, group.held)),
            "the others have processed all that it had",
        )
        await self._step(
            steps.POISON,
            self._send_poison,
            lambda: group.released[self._poison] >= group.delivery_limit,
            "the broker has given it up",
        )
        self._display.begin(steps.END)
        left = await self._read_rest()
        result = self._result(left)
        await self._end()
        return result

    # -- actions --------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for number in range(1, steps.CONSUMERS + 1):
            self._start_consumer(f"share-{number}")

    async def _fail(self) -> None:
        await self._tell_all("fail")

    async def _kill(self) -> None:
        await self._tell_all("work")
        victim = self._group.members()[1]
        await self._processes[victim].tell("hold")
        await self._wait_until(lambda: bool(self._group.held), f"{victim} to be at work on records")
        self._processes[victim].kill()
        await self._wait_until(lambda: victim not in self._group.members(), f"{victim} to end")

    async def _send_poison(self) -> None:
        self._poison = self._producer.produced + int(self._plan.records_per_second * _AHEAD_S) + 1
        self._display.log(f"record {self._poison} is going to be that one")
        await self._tell_all(f"poison {self._poison}")

    async def _end(self) -> None:
        for name in self._group.members():
            await self._processes[name].leave()
        await self._wait_until(lambda: not self._group.members(), "all consumers to leave")

    def _start_consumer(self, name: str) -> None:
        settings = ShareConsumerSettings(
            name=name,
            bootstrap=self._bootstrap,
            group_id=self._group.group_id,
            topic=self._topic,
            most_records=_MOST_RECORDS,
            work_s=self._plan.work_s,
        )

        def apply_report(report: Report) -> None:
            self._group.apply_report(name, report)
            self._display.changes.notify()

        def died(at_ns: int) -> None:
            self._group.killed(name, at_ns)
            self._display.changes.notify()

        process = self._processes[name] = ConsumerProcess(
            settings, apply_report, died, program="proxy.demo.share.consumer"
        )
        self._group.started(name)
        self._nursery.start_soon(process.run)

    async def _tell_all(self, command: str) -> None:
        for name in self._group.members():
            await self._processes[name].tell(command)

    # -- steps ------------------------------------------------------------------------------------------------------

    async def _step(
        self, step: Step, act: Callable[[], Awaitable[None]], is_shown: Callable[[], bool], what: str
    ) -> None:
        self._display.begin(step)
        await act()
        await self._wait_until(is_shown, what)
        self._display.log(what)
        self._display.view.settled(self._display)
        await trio.sleep(self._plan.pause_s)

    async def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        if not await self._display.changes.wait_until(condition, _SETTLE_S):
            raise DemoFailed(f"waited {_SETTLE_S:g} s in vain: {what}")

    async def _read_rest(self) -> int | None:
        """Wait until the broker says that nothing is left, up to a limit; return what it says."""
        self._producer.stop()
        await self._producer.finished.wait()
        left = None
        deadline = time.monotonic() + _SETTLE_S
        while left != 0 and time.monotonic() < deadline:
            await trio.sleep(_POLL_S)
            left = await self._at_broker.left()
        return left

    # -- results ---------------------------------------------------------------------------------------------------

    def _result(self, left: int | None) -> ShareResult:
        group, produced = self._group, self._producer.produced
        missing = [number for number in group.records.missing(produced) if number != self._poison]
        return ShareResult(
            produced=produced,
            accepted=group.records.distinct,
            accepted_twice=group.records.duplicates,
            missing=tuple(missing),
            came_again=group.came_again(),
            held=len(group.held),
            taken_over=sum(map(group.is_accepted, group.held)),
            taken_over_after_ms=group.taken_over_after_ms,
            poison=self._poison,
            poison_deliveries=group.deliveries[self._poison],
            delivery_limit=group.delivery_limit,
            left=left,
        )
