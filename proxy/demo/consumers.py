"""The consumer processes of one group: started, told to leave, killed."""

import time
from collections.abc import Callable

import trio

from proxy.demo.group import DemoGroup
from proxy.demo.plan import Plan
from proxy.demo.process import ConsumerProcess
from proxy.demo.reports import ConsumerSettings, Report


class Troupe:
    """Drives the consumers of a group, in the given nursery; ``changed`` is called after each of their reports."""

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
        """Start one more consumer."""
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

        def reported(report: Report) -> None:
            self.group.reported(name, report)
            self._changed()

        def died(at_ns: int) -> None:
            self.group.killed(name, at_ns)
            self._changed()

        process = self._processes[name] = ConsumerProcess(settings, reported, died)
        self.group.started(name, time.monotonic_ns())
        self._nursery.start_soon(process.run)

    async def leave(self, name: str) -> None:
        """Tell a consumer to leave in an orderly way."""
        self.group.leaving(name, time.monotonic_ns())
        await self._processes[name].leave()

    def kill(self, name: str) -> None:
        """kill -9 a consumer."""
        self._processes[name].kill()

    def name(self, number: int) -> str:
        """What the consumer of this number is called."""
        return f"{self.group.title.lower()}-{number}"
