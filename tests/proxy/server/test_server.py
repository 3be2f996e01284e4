"""The whole process on loopback, between clients that the test plays and scripted brokers."""

import json
import socket

import pytest
import structlog
import trio
import trio.testing

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from proxy.admin.admin_http import SingleProcessBackend, admin_app
from proxy.config.schema import Admin, Limits, Listener, Upstream
from proxy.server.server import Server
from proxy.transport.dialer import UnreachableError
from proxy.transport.listeners import BindError
from tests.proxy.admin.door import every_route
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import Running, config_for, serving
from tests.proxy.fakes.translators import Scripted

# -- relay ---------------------------------------------------------------------------------------------------


async def test_each_node_id_has_a_port_that_leads_to_that_node():
    async with a_cluster(1, 2) as brokers, serving(config_for(brokers)) as proxy:
        for node_id, other in ((1, 2), (2, 1)):
            before = len(brokers[other].requests)
            async with await connect(proxy.port(node_id)) as client:
                assert await proxy.ask(client, messages.plain(5)) is not None
            assert brokers[node_id].requests[-1] == messages.plain(5)
            assert len(brokers[other].requests) == before


async def test_a_client_finds_only_addresses_of_the_proxy():
    async with a_cluster(1, 2, 8) as brokers, serving(config_for(brokers)) as proxy:
        async with await connect(proxy.port()) as client:
            answer = await proxy.ask(client, messages.metadata(1))
        told = {b.node_id: (b.host, b.port) for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
        assert told == {node: ("127.0.0.1", proxy.port(node)) for node in (1, 2)}
        assert proxy.count("hidden_nodes_total") == 1


async def test_a_large_request_and_response_pass_over_sockets():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        big = messages.produce(1, acks=1, size=5_000_000)
        brokers[1].answer = lambda request: wire.response(
            ApiKey.PRODUCE, 9, wire.correlation_id(request), bytes(5_000_000 if request == big else 4)
        )
        async with await connect(proxy.port(1)) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, messages.plain(0) + big)
            reader = wire.FrameReader(client)
            assert await reader.frame() is not None
            answer = await reader.frame()
            assert len(answer) == 5_000_009
            assert brokers[1].requests[-1] == big


async def test_bad_clients_do_not_disturb_the_others():
    async with (
        a_cluster(1) as brokers,
        serving(config_for(brokers)) as proxy,
        await connect(proxy.port()) as good,
    ):
        for n, data in enumerate((b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\0\0\0", b"\xff" * 50, bytes(3))):
            bad = await connect(proxy.port())
            await bad.send_all(data)
            await bad.aclose()
            assert await proxy.ask(good, messages.plain(n)) is not None
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert proxy.count("client_to_proxy_active_connections", node_id="bootstrap") == 1


@pytest.mark.parametrize("experimental", [True, False])
async def test_a_native_member_of_a_group_with_hosted_members_is_not_relayed_unseen(experimental: bool):
    translator = Scripted()
    translator.routed = {"g"}
    async with (
        a_cluster(1) as brokers,
        serving(config_for(brokers, experimental=experimental), translator) as proxy,
        await connect(proxy.port(1)) as client,
    ):
        for group_id in ("g", "other"):
            request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="m")
            await client.send_all(wire.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 5, request))
            await proxy.ask(client, messages.plain(6))
    seen = [told for told in translator.told if told[0] == "request"]
    assert [told[-1].message.group_id for told in seen] == (["g"] if experimental else [])


# -- nodes ---------------------------------------------------------------------------------------------------


async def test_a_broker_that_wants_authentication_first_does_not_stop_the_start():
    async with a_cluster(1) as brokers:
        brokers[1].refuses_metadata = True
        async with serving(config_for(brokers)) as proxy:
            assert (await proxy.get("/readyz"))[0] == 200
            assert len(proxy.server.nodes) == 0


async def test_an_unknown_node_is_served_by_a_bootstrap_broker_until_its_address_is_known():
    async with a_cluster(1, 2) as brokers:
        brokers[1].refuses_metadata = True
        async with serving(config_for(brokers, 1)) as proxy:
            brokers[1].refuses_metadata = False
            on_node_2 = await connect(proxy.port(2))
            on_node_1 = await connect(proxy.port(1))
            await proxy.ask(on_node_2, messages.plain(5))
            await proxy.ask(on_node_1, messages.plain(6))
            assert brokers[1].requests[-2:] == [messages.plain(5), messages.plain(6)]

            async with await connect(proxy.port()) as client:
                await proxy.ask(client, messages.metadata(1))
            assert await wire.FrameReader(on_node_2).frame() is None, "it was at the wrong node"
            assert await proxy.ask(on_node_1, messages.plain(7)) is not None, "this one was right"
            async with await connect(proxy.port(2)) as client:
                await proxy.ask(client, messages.plain(8))
            assert brokers[2].requests == [messages.plain(8)]
            for stream in (on_node_1, on_node_2):
                await stream.aclose()


async def test_a_node_whose_address_becomes_known_while_a_connection_opens_is_dialed_itself():
    async with a_cluster(1, 2) as brokers:
        brokers[1].refuses_metadata = True
        async with serving(config_for(brokers, 1)) as proxy:
            brokers[1].refuses_metadata = False
            dialer, began, may_end = proxy.server._parts.dialer, trio.Event(), trio.Event()
            open_ = dialer._open

            async def slowly(host: str, port: int) -> trio.abc.Stream:
                dialer._open = open_
                began.set()
                await may_end.wait()
                return await open_(host, port)

            dialer._open = slowly
            async with await connect(proxy.port(2)) as on_node_2:
                await on_node_2.send_all(messages.plain(5))
                await began.wait()
                async with await connect(proxy.port()) as client:
                    await proxy.ask(client, messages.metadata(1))
                may_end.set()
                assert await wire.FrameReader(on_node_2).frame() is not None
            assert brokers[2].requests == [messages.plain(5)]


async def test_any_bootstrap_broker_will_do():
    async with a_cluster(1) as brokers:
        host, port = brokers[1].nodes[1]
        upstream = Upstream(bootstrap=("127.0.0.1:1", f"{host}:{port}"))
        async with serving(config_for(brokers, upstream=upstream)) as proxy:
            for n in range(3):
                async with await connect(proxy.port()) as client:
                    assert await proxy.ask(client, messages.plain(n)) is not None


async def test_a_broker_that_is_away_costs_its_clients_only():
    async with a_cluster(1, 2) as brokers, serving(config_for(brokers)) as proxy:
        proxy.server.nodes.learn(3, type(proxy.server.nodes.address_of(1))("127.0.0.1", 1))
        with structlog.testing.capture_logs() as logs:
            async with await connect(proxy.port(3)) as client:
                assert await proxy.ask(client, messages.plain(1)) is None
        assert any("127.0.0.1:1" in entry.get("reason", "") for entry in logs)
        async with await connect(proxy.port(1)) as client:
            assert await proxy.ask(client, messages.plain(1)) is not None


async def test_while_a_broker_is_away_its_clients_are_refused_and_then_served_again(monkeypatch):
    async with (
        a_cluster(1, 2) as brokers,
        serving(config_for(brokers)) as proxy,
    ):
        client = await connect(proxy.port(1))
        await proxy.ask(client, messages.plain(1))
        brokers[1].stop()
        assert await wire.FrameReader(client).frame() is None
        await client.aclose()
        with pytest.raises(ConnectionRefusedError):
            await connect(proxy.port(1))
        assert proxy.count("unreachable_nodes") == 1
        async with await connect(proxy.port(2)) as client:
            assert await proxy.ask(client, messages.plain(2)) is not None, "the others are served"
        async with await connect(proxy.port()) as client:
            assert await proxy.ask(client, messages.plain(3)) is not None

        found = trio.Event()
        learn = proxy.server._parts.broker_health._on_reachable
        monkeypatch.setattr(
            proxy.server._parts.broker_health, "_on_reachable", lambda node: (learn(node), found.set())
        )
        await brokers[1].start()
        with trio.fail_after(10):
            await found.wait()
        async with await connect(proxy.port(1)) as client:
            assert await proxy.ask(client, messages.plain(4)) is not None


async def test_without_any_broker_the_process_is_not_ready():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        client = await connect(proxy.port())
        await proxy.ask(client, messages.plain(1))
        brokers[1].stop()
        assert await wire.FrameReader(client).frame() is None
        await client.aclose()
        status, body = await proxy.get("/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "no bootstrap broker can be reached")
        await brokers[1].start()
        with trio.fail_after(10):
            while (await proxy.get("/readyz"))[0] != 200:
                await trio.testing.wait_all_tasks_blocked(0.05)


# -- start and end -------------------------------------------------------------------------------------------


async def test_a_taken_port_stops_the_start():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listener = Listener(bind="127.0.0.1", port=port, advertised_host="h", nodes={"0": 0})
        with pytest.raises(BindError, match=f"127.0.0.1:{port}: the port is taken"):
            Server(config_for({}, listeners=(listener,)), Scripted())


async def test_brokers_that_can_not_be_reached_stop_the_start():
    server = Server(config_for({}), Scripted())
    with pytest.raises(ExceptionGroup) as caught:
        await server.run()
    (error,) = caught.value.exceptions
    assert isinstance(error, UnreachableError)
    assert "127.0.0.1:1" in str(error)


async def test_a_broker_behind_tls_is_named_at_the_start():
    async def alert(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"\x15\x03\x03\x00\x02\x02\x46")

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, alert, [listener])
        port = listener.socket.getsockname()[1]
        upstream = Upstream(bootstrap=(f"127.0.0.1:{port}",), startup_timeout_s=0.3)
        server = Server(config_for({}, upstream=upstream), Scripted())
        with pytest.raises(ExceptionGroup) as caught:
            await server.run()
        assert "TLS" in str(caught.value.exceptions[0])
        nursery.cancel_scope.cancel()


async def test_ready_only_while_clients_are_welcome():
    async with a_cluster(1) as brokers:
        brokers[1].holds_back = trio.Event()
        server = Server(
            config_for(brokers, upstream=Upstream(bootstrap=("{}:{}".format(*brokers[1].nodes[1]),))),
            Scripted(),
        )
        proxy = Running(server)
        async with trio.open_nursery() as nursery:
            started = trio.Event()

            async def run(task_status=trio.TASK_STATUS_IGNORED) -> None:
                await server.run(task_status=task_status)

            async def start() -> None:
                await nursery.start(run)
                started.set()

            nursery.start_soon(start)
            await trio.testing.wait_all_tasks_blocked(0.05)
            status, body = await proxy.get("/readyz")
            assert (status, json.loads(body)) == (503, {"ready": False, "reason": "no broker reached yet"})
            assert (await proxy.get("/healthz"))[0] == 200
            with pytest.raises(OSError, match="refused"):
                await connect(proxy.port())

            brokers[1].holds_back.set()
            await started.wait()
            assert (await proxy.get("/readyz"))[0] == 200

            brokers[1].holds_back = trio.Event()
            client = await connect(proxy.port(1))
            await client.send_all(messages.plain(1))
            await brokers[1].got(messages.plain(1))
            server.stop()
            await trio.testing.wait_all_tasks_blocked(0.05)
            status, body = await proxy.get("/readyz")
            assert (status, json.loads(body)["reason"]) == (503, "draining")
            with pytest.raises(OSError, match="refused"):
                await connect(proxy.port())
            brokers[1].holds_back.set()
            reader = wire.FrameReader(client)
            assert await reader.frame() is not None, "what is in flight is finished"
            assert await reader.frame() is None
            await client.aclose()


# -- the admin port ------------------------------------------------------------------------------------------


async def test_metrics_are_exposed():
    async with a_cluster(1) as brokers, serving(config_for(brokers, limits=Limits())) as proxy:
        async with await connect(proxy.port(1)) as client:
            await proxy.ask(client, messages.heartbeat(1))
        status, body = await proxy.get("/metrics")
        assert status == 200
        labels = 'api_key="HEARTBEAT",api_version="3",decoded="true"'
        assert f"epochgate_client_to_proxy_request_total{{{labels}}} 1.0" in body
        assert "epochgate_ready 1.0" in body
        assert "process_resident_memory_bytes" in body


async def test_there_is_nothing_else_on_the_admin_port():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        assert (await proxy.get("/shutdown"))[0] == 404


async def test_the_admin_port_is_on_loopback_and_changes_nothing():
    assert Admin().bind == "127.0.0.1"
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        port = proxy.server.ports.admin
        with socket.create_connection(("127.0.0.1", port)), pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))
        backend = SingleProcessBackend(proxy.server.metrics, proxy.server.health, proxy.server.query_handlers)
        routes = every_route(admin_app(backend))
        assert {"/", "/metrics"} <= {route.path for route in routes}
        assert all(route.methods <= {"GET", "HEAD"} for route in routes)


async def test_sparse_and_large_node_ids_have_the_ports_that_were_given_to_them():
    async with a_cluster(7, 1001, 2**31 - 1) as brokers:
        listener = Listener(
            bind="127.0.0.1",
            port=0,
            advertised_host="127.0.0.1",
            nodes={"7": 0, "1001": 0, str(2**31 - 1): 0},
        )
        async with serving(config_for(brokers, listeners=(listener,))) as proxy:
            async with await connect(proxy.port()) as client:
                answer = await proxy.ask(client, messages.metadata(1))
            told = {b.node_id: b.port for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
            assert told == {node: proxy.port(node) for node in brokers}
            for number, node in enumerate(brokers):
                async with await connect(told[node]) as client:
                    await proxy.ask(client, messages.plain(number))
                assert brokers[node].requests[-1] == messages.plain(number)


async def test_nodes_behind_one_port_of_a_gateway_are_told_apart_by_their_names():
    async with a_cluster(1, 2) as brokers:
        listener = Listener(
            bind="127.0.0.1",
            port=0,
            advertised_host="kafka-{node_id}.example",
            advertised_port=9443,
            nodes={"0-3": 0},
        )
        async with serving(config_for(brokers, listeners=(listener,))) as proxy:
            async with await connect(proxy.port()) as client:
                answer = await proxy.ask(client, messages.metadata(1))
            told = {b.node_id: (b.host, b.port) for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
            assert told == {1: ("kafka-1.example", 9443), 2: ("kafka-2.example", 9443)}


class Mistaken:
    """A stream that can't be written to because of a mistake, not because its peer is gone."""

    async def send_all(self, _data: bytes) -> None:
        raise RuntimeError("a mistake")


async def test_a_mistake_in_the_task_that_writes_ends_one_connection_and_is_told():
    with structlog.testing.capture_logs() as lines:
        async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
            other, unlucky = await connect(proxy.port()), await connect(proxy.port())
            assert await proxy.ask(other, messages.plain(1)) is not None
            assert await proxy.ask(unlucky, messages.plain(2)) is not None
            buffer = max(
                proxy.server._parts.connections, key=lambda connection: connection.id
            )._shell.to_client
            buffer._send_nowait, buffer._stream = None, Mistaken()
            assert await proxy.ask(unlucky, messages.plain(3)) is None
            assert await proxy.ask(other, messages.plain(4)) is not None
            assert proxy.count("internal_errors_total", where="connection") == 1
            await other.aclose()
            await unlucky.aclose()
    assert [line["log_level"] for line in lines if line["event"] == "a connection failed"] == ["error"]
