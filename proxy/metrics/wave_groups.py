"""The metric of waves: how many groups of each are how far. Waves come with the policy, so it is made when asked."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.metrics.group_families import PREFIX, Family
from translation.rollout.wave_counts import WaveCount, WaveState

MOST_WAVES = 50
"""Waves that have series; a policy of ten thousands of groups has about ten."""

WAVES = Family(
    "wave_groups",
    ("wave", "state"),
    "Groups of each wave of the policy, by state (`waiting`, `moving`, `over`, `held`, `aborted`); the first "
    f"{MOST_WAVES} waves. With a member log every process knows those of all.",
)


class WaveGroups(Collector):
    """Collects what ``read`` returns: the waves in order."""

    def __init__(self, read: Callable[[], Iterable[WaveCount]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = GaugeMetricFamily(PREFIX + WAVES.name, WAVES.meaning, labels=WAVES.labels)
        for one in islice(self._read(), MOST_WAVES):
            for state in WaveState:
                family.add_metric((str(one.wave), state), one.groups.get(state, 0))
        yield family
