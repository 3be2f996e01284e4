"""Starts, stops and kills the consumer processes of one group."""

import time
from collections.abc import Callable

import trio

from proxy.demo.group import DemoGroup
from proxy.demo.plan import Plan
from proxy.demo.process import ConsumerProcess
from proxy.demo.reports import ConsumerSettings, Report


class ConsumerPool:
    """The consumer processes of a group, run in ``nursery``. Calls ``changed`` after each of their reports."""

    def __init__(
        self,
        group: DemoGroup,
        *,
        bootstrap: str,
        topic: str,
        plan: Plan,
        nursery: trio.Nursery,
        changed: Callable[[], None],
    ) -> None:
        self.group = group
        self._bootstrap = bootstrap
        self._topic = topic
        self._plan = plan
        self._nursery = nursery
        self._changed = changed
        self._processes: dict[str, ConsumerProcess] = {}

    def start(self, number: int) -> None:
        """Start the consumer of this number."""
        name = self.name(number)
        settings = ConsumerSettings(
            name=name,
            bootstrap=self._bootstrap,
            group_id=self.group.group_id,
            topic=self._topic,
            assignor=self._plan.assignor,
            session_timeout_ms=self._plan.session_timeout_ms,
            heartbeat_interval_ms=self._plan.heartbeat_interval_ms,
            work_s=self._plan.work_s,
        )

        def apply_report(report: Report) -> None:
            self.group.apply_report(name, report)
            self._changed()

        def died(at_ns: int) -> None:
            self.group.killed(name, at_ns)
            self._changed()

        process = self._processes[name] = ConsumerProcess(settings, apply_report, died)
        self.group.started(name, time.monotonic_ns())
        self._nursery.start_soon(process.run)

    async def leave(self, name: str) -> None:
        """Make a consumer leave the group and exit."""
        self.group.leaving(name, time.monotonic_ns())
        await self._processes[name].leave()

    def kill(self, name: str) -> None:
        """Kill a consumer with SIGKILL, so that it does not leave its group."""
        self._processes[name].kill()

    def name(self, number: int) -> str:
        """Return the client id of the consumer of this number."""
        return f"{self.group.title.lower()}-{number}"
