"""Several processes on the same ports: a real supervisor with real workers, between test clients and fake brokers."""

import os
import signal
import socket
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from proxy.admin.admin_client import Credentials, NoAnswerError, fetch_groups
from proxy.admin.process_queries import Readiness
from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.schema import Admin, Config, Limits, Listener, Upstream
from proxy.groups.snapshot import Snapshot
from proxy.reload.policy_reloader import PolicyReloader
from proxy.server.process import StartError, leaves
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_errors import TlsError, TlsFilesError
from proxy.transport.tls_stream import TlsStream
from proxy.workers.affinity import worker_of
from proxy.workers.supervisor import Supervisor, _worker_config
from tests.proxy.admin.door import OTHER, TOKEN, token_file
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import a_cluster
from tests.proxy.fakes.certificates import LOCAL, Authority
from tests.proxy.fakes.proxy_headers import binary, line
from tests.proxy.fakes.serving import config_for
from tests.proxy.workers.supervised import TWO_HOSTS, supervising, until
from translation.policy.policy import Mode, Policy, Rule

# -- who serves whom -----------------------------------------------------------------------------------------


async def test_a_worker_that_dies_costs_its_own_clients_only_and_is_started_again():
    here, there = TWO_HOSTS
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        first, other = await proxy.connect(here), await proxy.connect(there)
        second = await proxy.connect(here)
        for n, stream in enumerate((first, other, second)):
            assert await proxy.ask(stream, messages.plain(n)) is not None
        counted = await proxy.value("client_to_proxy_connections_total", node_id="bootstrap")
        assert counted == 3
        dead = proxy.pid_of(0)
        os.kill(dead, signal.SIGKILL)
        for stream in (first, second):
            assert await wire.FrameReader(stream).frame() is None
        assert await proxy.ask(other, messages.plain(4)) is not None

        again, _ = await proxy.reconnect(here, messages.plain(5))
        assert proxy.pid_of(0) != dead
        assert await proxy.value("worker_restarts_total", worker="0") == 1
        assert await proxy.value("client_to_proxy_connections_total", node_id="bootstrap") == counted + 1
        assert await proxy.value("client_to_proxy_active_connections", node_id="bootstrap") == 2
        for stream in (first, second, other, again):
            await stream.aclose()


@pytest.mark.parametrize("most", [None, 100], ids=["no limit", "a limit for each address"])
async def test_clients_of_one_address_are_spread_unless_each_worker_limits_their_connections(most):
    limits = Limits() if most is None else Limits(max_connections_per_address=most)
    # Two lengths of a client id, one for each worker, and the worker of those without one.
    lengths = [next(n for n in range(1, 50) if worker_of(LOCAL, 2, "c" * n) == worker) for worker in (0, 1)]
    alone = worker_of(LOCAL, 2)
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2, limits=limits)) as proxy:
        clients = [await proxy.connect(LOCAL) for _ in lengths]
        for client, length in zip(clients, lengths, strict=True):
            assert await proxy.ask(client, messages.plain(1, length)) is not None
        os.kill(proxy.pid_of(alone), signal.SIGKILL)
        assert await wire.FrameReader(clients[alone]).frame() is None
        other = clients[1 - alone]
        if most is None:
            assert await proxy.ask(other, messages.plain(2, lengths[1 - alone])) is not None
        else:
            assert await wire.FrameReader(other).frame() is None
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize("header", [line, binary], ids=["v1", "v2"])
async def test_clients_behind_one_balancer_go_to_the_workers_of_their_own_addresses(header):
    """The header is read before a worker is chosen, and TLS or Kafka goes on at the worker right behind it."""
    here, there = TWO_HOSTS
    async with a_cluster(1) as brokers:
        config = config_for(brokers, workers=2)
        (listener,) = config.listeners
        listener = msgspec.structs.replace(listener, proxy_protocol=ProxyProtocol(trusted=("127.0.0.1",)))
        async with supervising(msgspec.structs.replace(config, listeners=(listener,))) as proxy:
            first, other, second = [await proxy.connect("127.0.0.1") for _ in range(3)]
            for n, (stream, host) in enumerate(((first, here), (other, there), (second, here))):
                assert await proxy.ask(stream, header(host) + messages.plain(n)) is not None
            assert await proxy.value("client_to_proxy_proxy_headers_total", result="client") == 3
            assert await proxy.value("client_to_proxy_connections_total", node_id="bootstrap") == 3
            os.kill(proxy.pid_of(0), signal.SIGKILL)
            for stream in (first, second):
                assert await wire.FrameReader(stream).frame() is None
            assert await proxy.ask(other, messages.plain(4)) is not None
            for stream in (first, second, other):
                await stream.aclose()


async def test_workers_have_one_port_for_all_nodes_behind_a_balancer(tmp_path):
    authority = Authority(tmp_path)
    async with a_cluster(1, 2) as brokers:
        listener = Listener(
            bind=LOCAL,
            port=0,
            nodes_by_name="b{node}.kafka.example",
            bootstrap_name="kafka.example",
            tls=authority.listener_tls(hosts=("kafka.example", "*.kafka.example")),
            proxy_protocol=ProxyProtocol(trusted=(LOCAL,)),
        )
        async with supervising(config_for(brokers, workers=2, listeners=(listener,))) as proxy:
            for node, host in ((1, TWO_HOSTS[0]), (2, TWO_HOSTS[0]), (1, TWO_HOSTS[1]), (2, TWO_HOSTS[1])):
                plain = await proxy.connect(LOCAL)
                await plain.send_all(binary(host))
                name = f"b{node}.kafka.example"
                stream = TlsStream(plain, authority.client_context(), server_side=False, server_name=name)
                await stream.handshake()
                assert await proxy.ask(stream, messages.plain(node)) is not None
                assert brokers[node].requests[-1] == messages.plain(node)
                await stream.aclose()
            assert await proxy.value("client_to_proxy_connections_total", node_id="2") == 2


# -- together ------------------------------------------------------------------------------------------------


async def test_health_is_of_all_and_every_worker_answers():
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        assert (await proxy.get("/healthz"))[0] == 200
        assert (await proxy.get("/readyz"))[0] == 200
        assert await proxy.server.query("readiness", Readiness) == [Readiness(None)] * 2
        assert await proxy.server.query("nothing that is known", Readiness) == []
        assert await proxy.value("workers") == 2


async def test_its_admin_port_needs_the_token_that_is_configured(tmp_path):
    admin = Admin(port=0, token_file=str(token_file(tmp_path, TOKEN)))
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2, admin=admin)) as proxy:
        assert (await proxy.get("/readyz"))[0] == 200
        assert (await proxy.get("/metrics"))[0] == 401
        credentials = Credentials(token_file=admin.token_file)
        url = admin.url(proxy.server.ports.admin)
        fetch = partial(fetch_groups, url, Snapshot, timeout_s=30, credentials=credentials)
        assert (await trio.to_thread.run_sync(fetch)).ready
        token_file(tmp_path, OTHER)
        with pytest.raises(NoAnswerError, match="401"):
            await trio.to_thread.run_sync(fetch)
        for one in proxy.server.reloadables:
            one.reload("the file changed")
        assert (await trio.to_thread.run_sync(fetch)).ready


async def test_a_new_policy_reaches_every_worker_and_those_that_come_later():
    reject = Policy(rules=(Rule(mode=Mode.REJECT, group="g"),))
    here, there = TWO_HOSTS
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        proxy.server.set_policy(reject)
        os.kill(proxy.pid_of(0), signal.SIGKILL)
        for host in (here, there):
            stream, _ = await proxy.reconnect(host, messages.ask_versions(0))
            answer = await proxy.ask(stream, messages.join_group(1))
            assert wire.body_of(answer, 11, 5).error_code == 30  # GROUP_AUTHORIZATION_FAILED
            await stream.aclose()


async def test_the_snapshot_says_which_policy_holds_although_workers_read_no_file(tmp_path, nursery):
    """Groups as JSON, the page and `epochgate status` all show this snapshot."""
    file = tmp_path / "policy.yaml"
    file.write_text("default: observe\n")
    async with a_cluster(1) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        reloader = PolicyReloader(file, proxy.server.set_policy, proxy.server.metrics)
        nursery.start_soon(reloader.run)

        async def says(version: int, *, is_current: bool) -> bool:
            told = msgspec.json.decode((await proxy.get("/api/groups"))[1], type=Snapshot)
            assert len(told.replicas) == 2
            return (told.policy_version, told.policy_is_current) == (version, is_current)

        assert await says(1, is_current=True)
        file.write_text("default: translate\n")
        reloader.reload("test")
        await until(partial(says, 2, is_current=True))
        assert "policy 2" in (await proxy.get("/"))[1]
        file.write_text("default: nonsense\n")
        reloader.reload("test")
        await until(partial(says, 2, is_current=False))
        assert "policy file refused" in (await proxy.get("/"))[1]


async def test_the_port_of_a_node_that_is_away_refuses_clients():
    async with a_cluster(1, 2) as brokers, supervising(config_for(brokers, workers=2)) as proxy:
        brokers[2].stop()

        async def refused() -> bool:
            try:
                stream = TcpStream(socket.create_connection(("127.0.0.1", proxy.port(2))))
            except ConnectionRefusedError:
                return True
            await stream.send_all(messages.plain(1))
            await wire.FrameReader(stream).frame()
            await stream.aclose()
            return False

        await until(refused)
        await brokers[2].start()

        async def is_served() -> bool:
            return not await refused()

        await until(is_served)


# -- start and end -------------------------------------------------------------------------------------------


async def test_a_worker_that_can_not_start_ends_the_start():
    config = config_for({}, workers=2, upstream=Upstream(bootstrap=("127.0.0.1:1",), startup_timeout_s=0.3))
    with pytest.raises(BaseExceptionGroup) as caught:
        async with supervising(config):
            pass
    errors = leaves(caught.value)
    assert errors
    assert all(isinstance(error, StartError) and "exit code 1" in str(error) for error in errors)


async def test_workers_end_with_the_drain():
    async with a_cluster(1) as brokers:
        async with supervising(config_for(brokers, workers=2)) as proxy:
            pids = [proxy.pid_of(n) for n in (0, 1)]
            stream = await proxy.connect("127.0.0.5")
            assert await proxy.ask(stream, messages.plain(1)) is not None
        assert await wire.FrameReader(stream).frame() is None
        await stream.aclose()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


# -- configuration -----------------------------------------------------------------------------------------


def test_workers_share_a_limit_that_somebody_set():
    limits = [
        _worker_config(config_for({}, workers=4, limits=one)).limits
        for one in (Limits(max_connections=10), Limits())
    ]
    assert [one.max_connections for one in limits] == [2, Limits().max_connections]


# -- certificates ----------------------------------------------------------------------------------------------


async def test_a_worker_that_is_started_again_while_a_certificate_is_bad_shows_the_one_before(tmp_path):
    authority = Authority(tmp_path)
    tls = authority.listener_tls()
    here, there = TWO_HOSTS
    async with a_cluster(1) as brokers:
        config = config_for(brokers, workers=2)
        listener = msgspec.structs.replace(config.listeners[0], tls=tls)
        config = msgspec.structs.replace(config, listeners=(listener,))
        async with supervising(config) as proxy:

            async def asked(host: str) -> bool:
                """Whether a client of this address is served, by TLS."""
                stream = TlsStream(
                    await proxy.connect(host),
                    authority.client_context(),
                    server_side=False,
                    server_name=LOCAL,
                )
                try:
                    await stream.handshake()
                    return await proxy.ask(stream, messages.plain(1)) is not None
                except (TlsError, trio.BrokenResourceError):
                    return False
                finally:
                    await stream.aclose()

            async def are_current(value: float) -> bool:
                return await proxy.value("tls_is_current", where="listener 127.0.0.1:0") == value

            assert await asked(here)
            assert await asked(there)
            good = Path(tls.certificate).read_bytes()
            Path(tls.certificate).write_text("not a certificate")
            for reloaded in proxy.server.reloadables:
                reloaded.reload("a test")
            await until(partial(are_current, 0))
            dead = proxy.pid_of(0)
            os.kill(dead, signal.SIGKILL)
            await until(partial(asked, here))
            assert proxy.pid_of(0) != dead
            assert (await proxy.get("/readyz"))[0] == 200
            assert await are_current(0), "the file is still bad"
            assert await asked(there)

            Path(tls.certificate).write_bytes(good)
            await until(partial(are_current, 1))
            assert await asked(here)


def test_a_supervisor_does_not_start_with_a_bad_certificate(tmp_path):
    tls = Authority(tmp_path).listener_tls()
    Path(tls.key).write_text("no key")
    listener = Listener(advertised_host="proxy", port=0, nodes={"0": 0}, tls=tls)
    config = Config(upstream=Upstream(bootstrap=("a:1",)), listeners=(listener,), workers=2)
    with pytest.raises(TlsFilesError, match="not the private key"):
        Supervisor(config, Policy(), Path())
