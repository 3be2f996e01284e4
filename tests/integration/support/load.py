"""Records that flow while a test does other things."""

import threading
from types import TracebackType
from typing import Self

from support.broker import Kafka, Record

EVERY_S = 0.1
RECORDS = 12


class Load:
    """Produces a few records every now and then, from a thread of its own; `records` are those acknowledged so far."""

    def __init__(self, kafka: Kafka, topic: str, *, every_s: float = EVERY_S) -> None:
        self._kafka = kafka
        self._every_s = every_s
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load on {topic}")
        self._failure: BaseException | None = None
        self.records: list[Record] = []

    def stop(self) -> None:
        """No more. Raises what went wrong meanwhile."""
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every_s):
                self.records += self._kafka.produce(self._topic, RECORDS)
        except BaseException as failure:  # noqa: BLE001 - raised by `stop`, in the test's own thread
            self._failure = failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
