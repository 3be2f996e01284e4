"""Produces numbered records at a steady rate."""

import trio
from confluent_kafka import KafkaError, Message, Producer

from proxy.demo.failure import DemoFailed

_TICK_S = 0.05
_FLUSH_S = 30.0


class NumberedProducer:
    """Produces records with the values 0, 1, 2 and so on, spread evenly over the partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, per_second: float) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._topic = topic
        self._partitions = partitions
        self._per_second = per_second
        self._stopping = trio.Event()
        self.finished = trio.Event()
        """Set when all records are acknowledged."""
        self._failed: KafkaError | None = None
        self._sent = 0
        self.produced = 0
        """How many records the brokers have acknowledged."""

    async def run(self) -> None:
        """Produce until :meth:`stop`, and return when all records are acknowledged.

        :raises DemoFailed: a record was not acknowledged.
        """
        began = trio.current_time()
        while not self._stopping.is_set():
            self._send_up_to(int((trio.current_time() - began) * self._per_second))
            self._producer.poll(0)
            self._raise_failure()
            with trio.move_on_after(_TICK_S):
                await self._stopping.wait()
        unsent = await trio.to_thread.run_sync(self._producer.flush, _FLUSH_S)
        self._raise_failure()
        if unsent:
            raise DemoFailed(f"{unsent} records were not acknowledged within {_FLUSH_S:g} s")
        self.finished.set()

    def stop(self) -> None:
        """Make :meth:`run` stop producing."""
        self._stopping.set()

    def _send_up_to(self, number: int) -> None:
        while self._sent < number:
            try:
                self._producer.produce(
                    self._topic,
                    str(self._sent).encode(),
                    partition=self._sent % self._partitions,
                    on_delivery=self._delivered,
                )
            except BufferError:  # the brokers are behind: try again at the next tick
                return
            self._sent += 1

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.produced += 1
        else:
            self._failed = error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise DemoFailed(f"a record could not be produced: {self._failed}")
