"""Another configuration in all workers, or in none: each prepares it, and serves by it once all have.

A worker whose process began meanwhile, by the configuration before, is restarted.
"""

from collections.abc import Sequence

import msgspec
import trio

from proxy.workers.control_messages import PREPARE, Drop, PutInForce, Reconfigure
from proxy.workers.worker_process import WorkerHandle


class WorkersPrepared:
    """The workers that are to serve by another configuration."""

    def __init__(self, workers: Sequence[WorkerHandle]) -> None:
        self._workers = workers
        self._serving = [worker for worker in workers if worker.serving]
        self._ready: dict[WorkerHandle, int] = {}
        """The processes that have prepared it, by their number."""

    async def prepare(self, message: Reconfigure, timeout_s: float) -> list[str]:
        """Have all that serve prepare it, within so many seconds; return what stands in the way."""
        argument, problems = msgspec.msgpack.encode(message), list[str]()

        async def prepare_one(worker: WorkerHandle) -> None:
            incarnation = worker.incarnation
            found = await worker.query(PREPARE, list[str], argument)
            if found:
                problems.extend(found)
            elif found is not None:  # else the process has ended; the next one gets what is in force then
                self._ready[worker] = incarnation

        with trio.move_on_after(timeout_s) as time:
            async with trio.open_nursery() as nursery:
                for worker in self._serving:
                    nursery.start_soon(prepare_one, worker)
        if time.cancelled_caught:
            problems.append(f"not all workers have answered within {timeout_s:g} s")
        elif not problems and not self._ready:
            problems.append("no worker serves clients now")
        return list(dict.fromkeys(problems))

    def commit(self) -> None:
        """Have them serve by it. It is in force here already, for processes that begin from now on."""
        for worker in self._workers:
            if self._ready.get(worker) == worker.incarnation:
                worker.send(PutInForce())
            else:
                worker.restart()

    def drop(self) -> None:
        """Have them forget it."""
        for worker in self._serving:
            worker.send(Drop())
