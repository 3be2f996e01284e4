"""The metric of waves: how many groups of each are how far. Waves come with the policy, so it is made when asked."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from translation.rollout.wave_counts import WaveCount, WaveState

MOST_WAVES = 50
"""Waves that have series; a policy of ten thousands of groups has about ten."""


class WaveGroups(Collector):
    """Collects what ``read`` returns: the waves in order."""

    def __init__(self, name: str, meaning: str) -> None:
        self._name = name
        self._meaning = meaning
        self.read: Callable[[], Iterable[WaveCount]] = list

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = GaugeMetricFamily(self._name, self._meaning, labels=("wave", "state"))
        for one in islice(self.read(), MOST_WAVES):
            for state in WaveState:
                family.add_metric((str(one.wave), state), one.groups.get(state, 0))
        yield family
