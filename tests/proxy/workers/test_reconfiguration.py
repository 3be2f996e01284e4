"""Which workers are ready for another configuration, and what becomes of the others. Time is virtual."""

import trio

from proxy.workers.control_messages import Drop, PutInForce, Reconfigure
from proxy.workers.reconfiguration import WorkersPrepared
from tests.proxy.fakes.serving import config_for

MESSAGE = Reconfigure(config_for({}), [], {})


class Handle:
    """A worker that answers with these problems; None if its process ends, and never if it hangs."""

    def __init__(
        self, problems: list[str] | None = None, *, serving: bool = True, hangs: bool = False
    ) -> None:
        self.problems, self.serving, self.hangs = problems, serving, hangs
        self.incarnation = 1
        self.told: list[object] = []

    async def query(self, name: str, kind: object, argument: bytes) -> list[str] | None:
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.problems

    def send(self, message: object) -> None:
        self.told.append(message)

    def restart(self) -> None:
        self.told.append("restart")


async def test_only_processes_that_have_prepared_it_put_it_in_force():
    ready, other_process, ended, starting = Handle([]), Handle([]), Handle(), Handle(serving=False)
    workers = [ready, other_process, ended, starting]
    prepared = WorkersPrepared(workers)
    assert await prepared.prepare(MESSAGE, 10) == []
    other_process.incarnation += 1
    prepared.commit()
    assert ready.told == [PutInForce()]
    assert [one.told for one in workers[1:]] == [["restart"]] * 3


async def test_a_problem_is_told_once_and_all_are_to_forget_it():
    workers = [Handle([]), Handle(["a port"]), Handle(["a port", "a file"]), Handle(serving=False)]
    prepared = WorkersPrepared(workers)
    assert await prepared.prepare(MESSAGE, 10) == ["a port", "a file"]
    prepared.drop()
    assert [one.told for one in workers] == [[Drop()]] * 3 + [[]]


async def test_a_worker_that_hangs_stands_in_the_way(autojump_clock):
    prepared = WorkersPrepared([Handle([]), Handle(hangs=True)])
    assert await prepared.prepare(MESSAGE, 10) == ["not all workers have answered within 10 s"]


async def test_without_a_worker_that_serves_nothing_is_checked_and_so_refused():
    prepared = WorkersPrepared([Handle(serving=False), Handle()])
    assert await prepared.prepare(MESSAGE, 10) == ["no worker serves clients now"]
