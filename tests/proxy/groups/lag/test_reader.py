"""The reader with its process, without brokers: what it says then, and that it waits no longer than it was told to."""

import os
import signal
import socket

import trio

from proxy.groups.lag.reader import LagReader
from proxy.groups.lag.readings import Unknown, Why


async def test_without_an_account_nothing_is_known_and_no_process_runs():
    reader = LagReader(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        found = await reader.read(["g"])
        assert isinstance(found["g"], Unknown)
        assert found["g"].why is Why.NO_ACCOUNT
        assert reader.known(["g"]) == found
        assert reader.asking.process_id == 0
        nursery.cancel_scope.cancel()


async def test_brokers_that_do_not_answer_are_waited_for_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reader = LagReader({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            began = trio.current_time()
            first = await reader.read(["g"], patience_s=1.5)
            waited = trio.current_time() - began
            assert isinstance(first["g"], Unknown)
            assert first["g"].why is Why.NO_ANSWER
            began = trio.current_time()
            assert set(await reader.read(["g"], patience_s=60)) == {"g"}
            assert trio.current_time() - began < 30
            assert waited >= 1.5
            nursery.cancel_scope.cancel()


async def test_properties_that_librdkafka_refuses_are_named_and_the_process_is_started_again():
    reader = LagReader({"bootstrap.servers": "127.0.0.1:9", "no.such.property": "1"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        with trio.fail_after(60):
            while True:
                one = (await reader.read(["g"], patience_s=10))["g"]
                if isinstance(one, Unknown) and one.why is Why.BAD_ACCOUNT:
                    break
        assert "no.such.property" in one.detail
        nursery.cancel_scope.cancel()


async def test_what_is_in_flight_fails_when_the_process_dies():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reader = LagReader({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            with trio.fail_after(60):
                await reader.read(["g"], patience_s=0.1)
                while not reader.asking.process_id:  # noqa: ASYNC110  nobody announces it
                    await trio.sleep(0.01)
                os.kill(reader.asking.process_id, signal.SIGKILL)
                while "has ended" not in str(reader.known(["g"])["g"]):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def test_another_account_is_used_at_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        account = {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}
        reader = LagReader(account)
        (other,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with other, trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            with trio.fail_after(60):
                await reader.read(["g"], patience_s=0.1)
                while not reader.asking.process_id:  # noqa: ASYNC110  nobody announces it
                    await trio.sleep(0.01)
                first = reader.asking.process_id
                account["bootstrap.servers"] = f"127.0.0.1:{other.socket.getsockname()[1]}"
                reader.asking.replace("its account has changed")
                while reader.asking.process_id in (0, first):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                await reader.read(["g"], patience_s=0.1)
                await (await other.accept()).aclose()
            nursery.cancel_scope.cancel()
