"""The sensors of a process: what all its coordinators do, over Kafka's windows."""

from msgspec.structs import asdict, fields

from coordinator.metrics.activity import Activity
from coordinator.metrics.sampled import Meter, Samples


class Sensors:
    """Records what coordinators do. Times are milliseconds of one clock that never goes back."""

    def __init__(self, now_ms: float) -> None:
        self.meters = {field.name: Meter() for field in fields(Activity)}
        """The meters by the names of :class:`~coordinator.metrics.activity.Activity`."""
        self.load_times = Samples()
        """How long the coordinators took to load their logs, in milliseconds."""
        self._idle_times = Samples()
        self._idle_since_ms = now_ms

    def take(self, activity: Activity, now_ms: float) -> None:
        """Record what a coordinator has counted, and let it count from 0 again."""
        for name, count in asdict(activity).items():
            if count:
                self.meters[name].record(count, now_ms)
                setattr(activity, name, 0)

    def loaded(self, began_ms: float, now_ms: float) -> None:
        """A coordinator has loaded its log."""
        self.load_times.record(now_ms - began_ms, now_ms)

    def work_begins(self, now_ms: float) -> None:
        """A coordinator is given a request, a timer or a change of topics."""
        self._idle_times.record(now_ms - self._idle_since_ms, now_ms)

    def work_ended(self, now_ms: float) -> None:
        """It has done it."""
        self._idle_since_ms = now_ms

    def idle_ratio(self, now_ms: float) -> float:
        """Return the part of the time in which no coordinator worked: from 0 to 1."""
        self.work_begins(now_ms)
        self.work_ended(now_ms)
        return self._idle_times.rate(now_ms)
