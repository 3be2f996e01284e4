"""The descriptions of observed groups that wait for their forecast (``shadow``), and in which order they are taken.

What a broker says of a classic group comes from :class:`~proxy.groups.broker_polling.BrokerGroupPoller`, which
asks anyway. Here it is only put aside; one task takes one group after the other.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from protocol_codecs.messages.describe_groups import DescribedGroup
from proxy.config.shadow import Shadow
from proxy.groups.broker_queries import BrokerQueries
from proxy.groups.group_registry import GroupRegistry
from proxy.metrics.registry import Metrics
from proxy.runtime.computing_thread import InThread, in_thread
from proxy.runtime.wall_clock import WallClock
from translation.policy.policy import Mode

if TYPE_CHECKING:
    from proxy.groups.shadow_update import ShadowUpdate

_STABLE = "Stable"
_MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Descriptions that wait; what is beyond is left out until the broker is asked again."""


class Shadowing:
    """The forecasts of one process. The first described group loads what computes them, with the broker's assignors."""

    def __init__(
        self,
        brokers: BrokerQueries,
        registry: GroupRegistry,
        clock: WallClock,
        config: Shadow,
        metrics: Metrics,
        run_in_thread: InThread = in_thread,
    ) -> None:
        self._registry = registry
        self._parts = (brokers, registry, clock, config, metrics)
        self._in_thread = run_in_thread
        self._waiting: OrderedDict[str, DescribedGroup] = OrderedDict()
        self._waiting_bytes = 0
        self._takes_smallest = False
        self._work = trio.Event()

    def described(self, group_id: str, described: DescribedGroup) -> None:
        """A broker has described a classic group. Nothing is done with it here."""
        group = self._registry.groups.get(group_id)
        if group is None or group.mode is not Mode.OBSERVE:
            return
        if described.group_state != _STABLE and group.shadow is not None:
            return  # what was told before holds until the rebalance is over
        before = self._waiting.get(group_id)
        more = _bytes_of(described) - (0 if before is None else _bytes_of(before))
        if self._waiting_bytes + more > _MAX_WAITING_BYTES and self._waiting:
            return
        self._waiting[group_id] = described  # in its place, if it waits already
        self._waiting_bytes += more
        self._work.set()

    async def run(self) -> None:
        """Compute until cancelled."""
        update: ShadowUpdate | None = None
        while True:
            if not self._waiting:
                self._work = trio.Event()
                await self._work.wait()
            if update is None:
                update = await self._in_thread(self._load)
            described = self._take_out(group_id := self._next())
            if described is not None:
                await update.update(group_id, described)

    def _load(self) -> "ShadowUpdate":
        from proxy.groups.shadow_update import ShadowUpdate  # noqa: PLC0415 - many policies observe no group

        return ShadowUpdate(*self._parts)

    def _next(self) -> str:
        """The group that has waited for longest and the smallest one take turns: one huge group delays few others."""
        self._takes_smallest = not self._takes_smallest
        if self._takes_smallest:
            return min(self._waiting, key=lambda group_id: len(self._waiting[group_id].members))
        return next(iter(self._waiting))

    def _take_out(self, group_id: str) -> DescribedGroup | None:
        described = self._waiting.pop(group_id, None)
        if described is not None:
            self._waiting_bytes -= _bytes_of(described)
        return described


def _bytes_of(described: DescribedGroup) -> int:
    return sum(len(one.member_metadata) + len(one.member_assignment) + 200 for one in described.members)
