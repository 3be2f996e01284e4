"""Another configuration in all workers or in none, while clients are served."""

import gc
import os
import signal
import socket
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from protocol_codecs import ApiKey
from proxy.config.document import ConfigError
from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.schema import Config, Limits, Listener, Upstream
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_errors import TlsError
from proxy.transport.tls_stream import TlsStream
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import a_cluster
from tests.proxy.fakes.certificates import LOCAL, Authority
from tests.proxy.fakes.proxy_headers import line
from tests.proxy.fakes.serving import config_for
from tests.proxy.workers.supervised import TWO_HOSTS, Supervised, supervising, until


async def apply(proxy: Supervised, config: Config) -> None:
    await proxy.server.reconfigure(config)


def with_listener(config: Config, **keys: object) -> Config:
    first, *others = config.listeners
    return replace(config, listeners=(replace(first, **keys), *others))


async def told_host(proxy: Supervised, client: trio.abc.Stream) -> str:
    """The host of node 1 in a client's metadata."""
    answer = await proxy.ask(client, messages.metadata(1))
    (host,) = {b.host for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
    return host


async def is_told(proxy: Supervised, host: str, client_host: str, listener: int = 0) -> bool:
    """Whether a new client of this address gets this host in its metadata."""
    at = LOCAL, proxy.port(listener=listener)
    client = TcpStream(socket.create_connection(at, source_address=(client_host, 0)))
    answer = await proxy.ask(client, messages.metadata(1))
    await client.aclose()
    return answer is not None and {b.host for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers} == {host}


def is_refused(port: int) -> bool:
    try:
        socket.create_connection((LOCAL, port)).close()
    except ConnectionRefusedError:
        return True
    return False


async def test_workers_get_ports_addresses_and_limits_while_their_clients_stay():
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        config = proxy.server._config
        clients = [await proxy.connect(host) for host in TWO_HOSTS]
        for n, client in enumerate(clients):
            assert await proxy.ask(client, messages.plain(n)) is not None
        at_node = TcpStream(socket.create_connection((LOCAL, proxy.port(2))))
        assert await proxy.ask(at_node, messages.plain(3)) is not None
        bootstrap, gone, pids = proxy.port(), proxy.port(2), [proxy.pid_of(n) for n in (0, 1)]

        changed = with_listener(config, nodes={"0-1": 0, "5": 0}, advertised_host="other.example")
        await apply(proxy, replace(changed, limits=Limits(max_connections_per_address=2)))
        assert proxy.port() == bootstrap
        assert is_refused(gone)
        for client, host in zip(clients, TWO_HOSTS, strict=True):
            await until(partial(is_told, proxy, "other.example", host))
            assert await told_host(proxy, client) == "other.example"
            second, _ = await proxy.reconnect(host, messages.plain(4))  # once the last one's end was noticed
            third = await proxy.connect(host)
            assert await wire.FrameReader(third).frame() is None, "two of an address"
            await second.aclose()
            await third.aclose()
        with trio.fail_after(10):
            assert await wire.FrameReader(at_node).frame() is None
        at_new = TcpStream(socket.create_connection((LOCAL, proxy.port(5))))
        assert await proxy.ask(at_new, messages.plain(6)) is not None
        await apply(proxy, config)
        for client in clients:
            await until(partial(is_told, proxy, LOCAL, TWO_HOSTS[0]))
            assert await proxy.ask(client, messages.plain(7)) is not None
        assert [proxy.pid_of(n) for n in (0, 1)] == pids
        for client in (*clients, at_node, at_new):
            await client.aclose()


async def test_a_listener_before_the_others_changes_nothing_for_them(tmp_path):
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        config = proxy.server._config
        client = await proxy.connect(TWO_HOSTS[0])
        assert await proxy.ask(client, messages.plain(0)) is not None
        before = proxy.port()
        first = Listener(
            bind="127.0.0.9",
            port=0,
            advertised_host="first.example",
            nodes={"0-3": 0},
            proxy_protocol=ProxyProtocol(trusted=(LOCAL,)),
        )
        await apply(proxy, replace(config, listeners=(first, *config.listeners)))
        assert proxy.port(listener=1) == before
        async with TcpStream(socket.create_connection(("127.0.0.9", proxy.port()))) as there:
            await there.send_all(line(TWO_HOSTS[1]))
            assert await told_host(proxy, there) == "first.example"
        assert await told_host(proxy, client) == LOCAL
        os.kill(proxy.pid_of(0), signal.SIGKILL)
        is_served = partial(is_told, proxy, LOCAL, TWO_HOSTS[0], listener=1)
        await until(is_served)  # a new process has the listeners of now
        await client.aclose()


async def test_other_certificates_reach_every_worker_and_those_that_come_later(tmp_path):
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    async with a_cluster(1) as brokers:
        config = with_listener(config_for(brokers, workers=2), tls=ours.listener_tls())
        async with supervising(config) as proxy:

            async def is_served(host: str, authority: Authority) -> bool:
                plain, trusted = await proxy.connect(host), authority.client_context()
                stream = TlsStream(plain, trusted, server_side=False, server_name=LOCAL)
                try:
                    await stream.handshake()
                    return await proxy.ask(stream, messages.plain(1)) is not None
                except (TlsError, trio.BrokenResourceError):
                    return False
                finally:
                    await stream.aclose()

            tls = theirs.listener_tls()
            await apply(proxy, with_listener(config, tls=tls))
            for host in TWO_HOSTS:
                await until(partial(is_served, host, theirs))
                assert not await is_served(host, ours)
            assert Path(tls.certificate) in {file for one in proxy.server.reloadables for file in one.files}
            Path(tls.key).write_text("no key")
            for one in proxy.server.reloadables:
                one.reload("a test")
            os.kill(proxy.pid_of(0), signal.SIGKILL)
            await until(partial(is_served, TWO_HOSTS[0], theirs))


async def test_what_one_of_them_can_not_have_changes_nothing(tmp_path):
    def descriptors() -> list[str]:
        gc.collect()
        return sorted(one.name for one in Path("/proc/self/fd").iterdir())

    async with (
        a_cluster(1) as brokers,
        a_cluster(1) as others,
        supervising(config_for(brokers, workers=2)) as proxy,
    ):
        config = proxy.server._config
        brokers[1].cluster_id, others[1].cluster_id = "ours", "theirs"
        clients = [await proxy.connect(host) for host in TWO_HOSTS]
        for client in clients:
            assert await told_host(proxy, client) == LOCAL
        tls = Authority(tmp_path).listener_tls()
        Path(tls.key).write_text("no key")
        nobody = Upstream(bootstrap=("127.0.0.1:1",))
        elsewhere = Upstream(bootstrap=("{}:{}".format(*others[1].nodes[1]),))
        changed = with_listener(config, nodes={"0-5": 0}, advertised_host="other.example")
        ports, opened = proxy.server.ports, descriptors()
        with socket.create_server((LOCAL, 0)) as taken:
            port = taken.getsockname()[1]
            for mistake, problem in (
                (replace(changed, upstream=nobody), "`upstream`: 127.0.0.1:1"),
                (replace(changed, upstream=elsewhere), "of the cluster theirs, and not of ours"),
                (with_listener(changed, nodes={"0-3": 0, "5": port}), "is taken"),
                (with_listener(changed, tls=tls), "not the private key"),
            ):
                with pytest.raises(ConfigError, match=problem) as caught:
                    await apply(proxy, mistake)
                assert len(caught.value.problems) == 1, "not one of each worker"
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert proxy.server._config is config
        assert proxy.server.ports == ports
        assert descriptors() == opened
        for client, host in zip(clients, TWO_HOSTS, strict=True):
            assert await told_host(proxy, client) == LOCAL
            assert await is_told(proxy, LOCAL, host)
        await apply(proxy, changed)
        for client, host in zip(clients, TWO_HOSTS, strict=True):
            await until(partial(is_told, proxy, "other.example", host))
            await client.aclose()


@pytest.mark.parametrize("begins_before", [False, True])
async def test_a_worker_that_crashes_meanwhile_serves_by_the_new_one(begins_before: bool):
    """Also if its next process has begun by the configuration before."""
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        changed = with_listener(proxy.server._config, nodes={"0-5": 0}, advertised_host="other.example")
        changed = replace(changed, upstream=replace(changed.upstream, connect_timeout_s=30))
        stays = await proxy.connect(TWO_HOSTS[1])
        assert await proxy.ask(stays, messages.plain(1)) is not None
        brokers[1].holds_back, dead = trio.Event(), proxy.pid_of(0)
        before = brokers[1].connections
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply, proxy, changed)
            with trio.fail_after(30):
                while brokers[1].connections < before + 2:
                    await brokers[1].arrival()
            os.kill(dead, signal.SIGKILL)

            async def has_ended() -> bool:
                worker = proxy.server._workers[0]
                return worker.incarnation == 2 if begins_before else not worker.serving

            await until(has_ended)
            brokers[1].holds_back.set()
        for host in TWO_HOSTS:
            client, _ = await proxy.reconnect(host, messages.plain(2))
            await client.aclose()
            await until(partial(is_told, proxy, "other.example", host))
        assert await told_host(proxy, stays) == "other.example"
        assert proxy.pid_of(0) != dead
        await stays.aclose()


async def test_the_new_port_of_a_node_that_is_away_refuses_clients():
    async with a_cluster(1, 2) as brokers:
        config = with_listener(config_for(brokers, 1, workers=2), nodes={"0-2": 0})
        async with supervising(config) as proxy:
            brokers[2].stop()
            first = TcpStream(socket.create_connection((LOCAL, proxy.port(2))))
            await first.send_all(messages.plain(1))
            assert await wire.FrameReader(first).frame() is None
            await first.aclose()

            async def refuses() -> bool:
                return is_refused(proxy.port(2))

            await until(refuses)
            more = Listener(bind="127.0.0.1", port=0, advertised_host="more", nodes={"2": 0})
            await apply(proxy, replace(config, listeners=(*config.listeners, more)))

            async def new_one_refuses() -> bool:
                return is_refused(proxy.port(2, listener=1))

            await until(new_one_refuses)
            await brokers[2].start()

            async def serves() -> bool:
                return not await new_one_refuses() and not await refuses()

            await until(serves)


async def test_one_comes_after_the_other_and_none_in_a_drain():
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        config = proxy.server._config
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(
                    apply, proxy, with_listener(config, nodes={f"0-{n + 4}": 0}, advertised_host=f"h{n}")
                )
        (listener,) = proxy.server._config.listeners
        await until(partial(is_told, proxy, str(listener.advertised_host), TWO_HOSTS[0]))
        proxy.server.stop()
        with pytest.raises(ConfigError, match="draining"):
            await apply(proxy, config)
