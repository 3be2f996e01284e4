"""Another configuration in force while clients are served: all of it or nothing, and open connections stay."""

import gc
import resource
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace

from protocol_codecs import ApiKey
from proxy.config.document import ConfigError
from proxy.config.fleet import UnreadableSecret
from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.schema import Config, Drain, Limits, Listener, Log, Upstream
from proxy.server.server import Server
from proxy.transport.listeners import Port
from proxy.transport.tcp_stream import TcpStream
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import FakeBroker, a_cluster, connect
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls
from tests.proxy.fakes.proxy_headers import line
from tests.proxy.fakes.serving import Running, config_for, serving
from tests.proxy.fakes.translators import Scripted


@pytest.fixture
def clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """Time passes as ever, and can be skipped."""
    mock_clock.rate = 1.0
    return mock_clock


async def apply(proxy: Running, config: Config) -> None:
    await proxy.server.reconfigure(config)


def with_listener(config: Config, **keys: object) -> Config:
    """The configuration with its first listener changed."""
    first, *others = config.listeners
    return replace(config, listeners=(replace(first, **keys), *others))


def a_listener(**keys: object) -> Listener:
    return Listener(**{"bind": LOCAL, "port": 0, "advertised_host": LOCAL, "nodes": {"0-3": 0}} | keys)


async def told(proxy: Running, client: trio.abc.Stream, n: int) -> dict[int, tuple[str, int]]:
    """The addresses of the nodes in a client's metadata."""
    answer = await proxy.ask(client, messages.metadata(n))
    return {b.node_id: (b.host, b.port) for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}


async def has_ended(stream: trio.abc.Stream) -> bool:
    """Whether the proxy closes the connection before anything else."""
    return await wire.FrameReader(stream).frame() is None


def descriptors() -> list[str]:
    gc.collect()
    return sorted(one.name for one in Path("/proc/self/fd").iterdir())


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


# -- ports ---------------------------------------------------------------------------------------------------


async def test_ports_of_nodes_are_opened_and_the_ones_before_refuse_nobody():
    async with a_cluster(1, 5) as brokers, serving(config_for(brokers)) as proxy:
        clients = {node: await connect(proxy.port(node)) for node in (None, 1)}
        numbers = {node: proxy.port(node) for node in (None, 0, 1, 2, 3)}
        served, is_over = 0, False

        async def come_again_and_again() -> None:
            nonlocal served
            while not is_over:
                for node in (None, 1):
                    async with await connect(numbers[node]) as client:
                        assert await proxy.ask(client, messages.plain(1)) is not None
                        served += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_again_and_again)
            for nodes in ({"0-5": 0}, {"0-7": 0}, {"0-5": 0}):
                before = served
                await apply(proxy, with_listener(proxy.server.config, nodes=nodes))
                while served < before + 4:
                    await trio.lowlevel.checkpoint()
            is_over = True
        assert {node: proxy.port(node) for node in numbers} == numbers
        for n, (node, client) in enumerate(clients.items()):
            assert (await told(proxy, client, n))[5] == (LOCAL, proxy.port(5)), node
            await client.aclose()
        async with await connect(proxy.port(5)) as client:
            assert await proxy.ask(client, messages.plain(9)) is not None
        assert brokers[5].requests[-1] == messages.plain(9)
        assert proxy.count("client_to_proxy_disconnects_total", cause="reloaded") == 0


async def test_a_port_that_goes_ends_its_own_connections_when_they_rest(clock, monkeypatch):
    async with a_cluster(1, 2) as brokers, serving(config_for(brokers)) as proxy:
        busy, resting, rebalancing = [await connect(proxy.port(2)) for _ in range(3)]
        elsewhere, port = await connect(proxy.port(1)), proxy.port(2)
        for n, client in enumerate((busy, resting, elsewhere, rebalancing)):
            assert await proxy.ask(client, messages.plain(n)) is not None
        unsettled = {max(one.id for one in proxy.server._parts.connections if one.node_id == 2)}
        monkeypatch.setattr(proxy.server.driver, "is_quiescent", lambda one: one not in unsettled)
        brokers[2].holds_back = trio.Event()
        await busy.send_all(messages.plain(4))
        await brokers[2].got(messages.plain(4))

        await apply(proxy, with_listener(proxy.server.config, nodes={"0-1": 0, "3": 0}))
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
        assert 2 not in await told(proxy, elsewhere, 5)
        await settled()
        clock.jump(1.5)
        assert await has_ended(resting)
        await settled()
        assert proxy.count("client_to_proxy_disconnects_total", cause="reloaded") == 1

        brokers[2].holds_back.set()
        reader = wire.FrameReader(busy)
        assert await reader.frame() is not None, "what was in flight is answered"
        assert await reader.frame() is None
        assert await proxy.ask(rebalancing, messages.plain(6)) is not None, "its member is not Stable"
        unsettled.clear()
        clock.jump(1.5)
        assert await has_ended(rebalancing)
        await settled()
        assert proxy.count("client_to_proxy_disconnects_total", cause="reloaded") == 3
        assert await proxy.ask(elsewhere, messages.plain(7)) is not None
        for client in (busy, rebalancing, resting, elsewhere):
            await client.aclose()


async def test_a_new_port_of_a_node_that_is_away_refuses_clients_until_it_is_back(monkeypatch):
    async with a_cluster(1, 2) as brokers:
        config = with_listener(config_for(brokers, 1), nodes={"0-1": 0})
        async with serving(config) as proxy:
            health = proxy.server._parts.broker_health
            brokers[2].stop()
            await health.probe(2)
            assert health.is_unreachable(2)
            await apply(proxy, with_listener(config, nodes={"0-2": 0}))
            with pytest.raises(ConnectionRefusedError):
                await connect(proxy.port(2))
            found, reachable = trio.Event(), health._on_reachable
            monkeypatch.setattr(health, "_on_reachable", lambda node: (reachable(node), found.set()))
            await brokers[2].start()
            with trio.fail_after(10):
                await found.wait()
            async with await connect(proxy.port(2)) as client:
                assert await proxy.ask(client, messages.plain(4)) is not None


async def test_listeners_are_opened_and_closed_wherever_they_stand(clock, tmp_path):
    authority = Authority(tmp_path)
    async with a_cluster(1) as brokers:
        inside = a_listener(advertised_host="inside.example")
        first = a_listener(bind="127.0.0.2", tls=authority.listener_tls())
        async with serving(config_for(brokers, listeners=(first, inside))) as proxy:
            on_first = await trio.open_tcp_stream("127.0.0.2", proxy.port(listener=0))
            on_first = trio.SSLStream(on_first, authority.client_context(), server_hostname=LOCAL)
            assert await proxy.ask(on_first, messages.plain(0)) is not None
            old_port = proxy.port(listener=0)
            client = await connect(proxy.port(1, listener=1))
            assert await proxy.ask(client, messages.plain(1)) is not None
            where = "listener 127.0.0.2:0"
            assert proxy.count("tls_is_current", where=where) == 1

            outside = a_listener(bind="127.0.0.3", advertised_host="outside.example")
            await apply(proxy, replace(proxy.server.config, listeners=(inside, outside)))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", old_port))
            assert (await told(proxy, client, 2))[1] == ("inside.example", proxy.port(1, listener=0))
            port = proxy.port(1, listener=1)
            async with TcpStream(socket.create_connection(("127.0.0.3", port))) as there:
                assert (await told(proxy, there, 3))[1] == ("outside.example", port)
            assert (
                proxy.server.metrics.registry.get_sample_value("epochgate_tls_is_current", {"where": where})
                is None
            ), "no series stays of a listener that is gone"
            assert proxy.server.certificates == []
            await settled()
            clock.jump(1.5)
            assert await on_first.receive_some() == b""
            assert await proxy.ask(client, messages.plain(4)) is not None
            await client.aclose()
            await trio.aclose_forcefully(on_first)


async def test_clients_are_told_other_addresses_on_open_connections_too():
    async with (
        a_cluster(1) as brokers,
        serving(config_for(brokers)) as proxy,
        await connect(proxy.port()) as client,
    ):
        assert (await told(proxy, client, 1))[1][0] == LOCAL
        await apply(proxy, with_listener(proxy.server.config, advertised_host="kafka-{node_id}.example"))
        assert (await told(proxy, client, 2))[1] == ("kafka-1.example", proxy.port(1))
        await apply(
            proxy,
            with_listener(
                proxy.server.config, advertised_host="b{node_id}.kafka.example", advertised_port=9443
            ),
        )
        assert (await told(proxy, client, 3))[1] == ("b1.kafka.example", 9443)


async def test_too_few_descriptors_for_new_ports_are_a_refusal():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        config, before = proxy.server.config, descriptors()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 20, hard))
        try:
            with pytest.raises(ConfigError, match="Too many open files"):
                await apply(proxy, with_listener(config, nodes={"0-999": 0}))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(descriptors()) < len(before) + 10, "but for what other tests have left"
        assert proxy.server.config is config


async def test_ports_are_not_compared_each_with_each(monkeypatch):
    """There may be thousands, and nobody is served meanwhile."""
    compared = list[object]()
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        monkeypatch.setattr(Port, "__eq__", lambda one, other: compared.append(other) or one is other)
        monkeypatch.setattr(Port, "__hash__", object.__hash__)
        await apply(proxy, replace(proxy.server.config, drain=Drain(grace_s=4)))
        assert compared == []


# -- connections from now on -----------------------------------------------------------------------------------


async def is_served_by(proxy: Running, authority: Authority) -> bool:
    """Whether a client that trusts this authority alone is served."""
    try:
        client = await connect_tls(proxy.port(), authority.client_context())
    except trio.BrokenResourceError:
        return False
    served = await proxy.ask(client, messages.plain(1)) is not None
    await client.aclose()
    return served


async def test_other_certificates_and_trust_are_for_new_connections(tmp_path):
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    async with a_cluster(1) as brokers:
        config = with_listener(config_for(brokers), tls=ours.listener_tls())
        async with serving(config) as proxy:
            client = await connect_tls(proxy.port(), ours.client_context())
            assert await proxy.ask(client, messages.plain(1)) is not None
            (before,) = proxy.server.certificates
            assert before in proxy.server.reloadables

            await apply(proxy, with_listener(config, tls=theirs.listener_tls()))
            assert await is_served_by(proxy, theirs)
            assert not await is_served_by(proxy, ours)
            assert await proxy.ask(client, messages.plain(2)) is not None
            (now,) = proxy.server.certificates
            assert now is not before
            assert now in proxy.server.reloadables
            assert before not in proxy.server.reloadables

            kept = proxy.server.certificates
            await apply(proxy, replace(proxy.server.config, drain=Drain(grace_s=4)))
            assert proxy.server.certificates == kept, "files that are named as before are not read again"
            await client.aclose()


async def test_tls_and_proxy_headers_begin_and_end_on_a_port_that_stays(tmp_path):
    authority = Authority(tmp_path)
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        plain = await connect(proxy.port())
        assert await proxy.ask(plain, messages.plain(1)) is not None
        await apply(proxy, with_listener(proxy.server.config, tls=authority.listener_tls()))
        assert await is_served_by(proxy, authority)
        await apply(proxy, with_listener(proxy.server.config, tls=None))
        assert proxy.server.certificates == []

        await apply(proxy, with_listener(proxy.server.config, proxy_protocol=ProxyProtocol(trusted=(LOCAL,))))
        slow = await connect(proxy.port())
        async with await connect(proxy.port()) as behind:
            assert await proxy.ask(behind, line("192.0.2.7") + messages.plain(2)) is not None
        assert proxy.count("client_to_proxy_proxy_headers_total", result="client") == 1

        await apply(proxy, with_listener(proxy.server.config, proxy_protocol=None))
        async with await connect(proxy.port()) as direct:
            assert await proxy.ask(direct, messages.plain(3)) is not None
        assert await proxy.ask(slow, line("192.0.2.8") + messages.plain(4)) is not None, "it came before"
        assert await proxy.ask(plain, messages.plain(5)) is not None
        await slow.aclose()
        await plain.aclose()


async def test_nodes_get_names_on_the_port_that_stays_and_lose_their_own_ports(clock, tmp_path):
    authority = Authority(tmp_path)
    tls = authority.listener_tls(hosts=("kafka.example", "*.kafka.example"))
    async with a_cluster(1, 2) as brokers:
        by_port = config_for(brokers)
        async with serving(with_listener(by_port, tls=tls)) as proxy:

            async def client_of(name: str, port: int) -> trio.SSLStream:
                stream = await connect_tls(port, authority.client_context(), name)
                assert await proxy.ask(stream, messages.plain(1)) is not None
                return stream

            port, node_port = proxy.port(), proxy.port(1)
            on_bootstrap = await client_of("kafka.example", port)
            on_node = await client_of("b1.kafka.example", node_port)
            named = {
                "nodes_by_name": "b{node}.kafka.example",
                "bootstrap_name": "kafka.example",
                "nodes": {},
                "advertised_host": None,
                "tls": tls,
            }
            await apply(proxy, with_listener(by_port, **named, node_ids=("0-9",)))
            assert proxy.port() == port
            with pytest.raises(ConnectionRefusedError):
                await connect(node_port)
            by_name = {node: await client_of(f"b{node}.kafka.example", port) for node in (1, 2)}
            assert brokers[2].requests[-1] == messages.plain(1)

            await apply(proxy, with_listener(by_port, **named, node_ids=("0-1",)))
            await settled()
            clock.jump(1.5)
            for gone in (on_node, by_name[2]):
                assert await gone.receive_some() == b""
            for stays in (on_bootstrap, by_name[1]):
                assert await proxy.ask(stays, messages.plain(3)) is not None
            with pytest.raises(trio.BrokenResourceError):
                await client_of("b2.kafka.example", port)
            for stream in (on_bootstrap, on_node, *by_name.values()):
                await trio.aclose_forcefully(stream)


# -- limits ---------------------------------------------------------------------------------------------------


async def test_limits_bind_new_connections_and_idle_ones(clock):
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        first, second = await connect(proxy.port()), await connect(proxy.port())
        for n, client in enumerate((first, second)):
            assert await proxy.ask(client, messages.plain(n)) is not None
        limits = Limits(max_connections_per_address=2, idle_timeout_s=20, frame_max_bytes=2000)
        await apply(proxy, replace(proxy.server.config, limits=limits))
        async with await connect(proxy.port()) as third:
            assert await has_ended(third)
        assert await proxy.ask(first, messages.plain(2, padding=5000)) is not None, "as it began"
        await second.aclose()
        await settled()
        async with await connect(proxy.port()) as third:
            assert await proxy.ask(third, messages.plain(3)) is not None
            await third.send_all(messages.plain(4, padding=5000))
            assert await has_ended(third)
        await settled()
        clock.jump(21)
        assert await has_ended(first)
        assert proxy.count("client_to_proxy_disconnects_total", cause="idle") == 1
        await first.aclose()


async def test_the_memory_for_large_calls_follows():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        await apply(proxy, replace(proxy.server.config, limits=Limits(group_calls_held_max_bytes=2 << 20)))
        budget, granted = proxy.server._parts.held_calls, list[int]()
        first = budget.reserve(2 << 20, lambda: None)
        second = budget.reserve(1 << 20, lambda: granted.append(1))
        assert first.granted
        assert not second.granted
        await apply(proxy, replace(proxy.server.config, limits=Limits()))
        assert granted == [1]


# -- upstream -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def two_listeners_of_a_cluster(
    tmp_path: Path,
) -> AsyncIterator[tuple[FakeBroker, FakeBroker, Authority]]:
    """One broker that is reached in two ways: plainly, and by TLS."""
    authority = Authority(tmp_path)
    async with a_cluster(1) as plain, a_cluster(1, tls=authority.server_context()) as secured:
        for one in (plain[1], secured[1]):
            one.cluster_id = "ours"
        yield plain[1], secured[1], authority


def upstream_at(broker: FakeBroker, **keys: object) -> Upstream:
    return Upstream(bootstrap=("{}:{}".format(*broker.nodes[broker.node_id]),), **keys)


async def test_brokers_are_reached_in_another_way_from_now_on(tmp_path):
    async with (
        two_listeners_of_a_cluster(tmp_path) as (plain, secured, authority),
        serving(config_for({1: plain})) as proxy,
    ):
        client = await connect(proxy.port(1))
        assert await proxy.ask(client, messages.plain(1)) is not None
        upstream = upstream_at(secured, tls=authority.upstream_tls())
        await apply(proxy, replace(proxy.server.config, upstream=upstream))
        assert await proxy.ask(client, messages.plain(2)) is not None
        assert plain.requests[-1] == messages.plain(2), "what is open stays"
        await told(proxy, client, 3)
        for node, n in ((1, 4), (None, 5)):
            async with await connect(proxy.port(node)) as new:
                assert await proxy.ask(new, messages.plain(n)) is not None
            assert secured.requests[-1] == messages.plain(n)
        assert messages.plain(4) not in plain.requests, "an old connection has told its addresses"
        (certificates,) = proxy.server.certificates
        assert certificates.where == "upstream"

        await apply(proxy, replace(proxy.server.config, upstream=upstream_at(plain)))
        assert proxy.server.certificates == []
        async with await connect(proxy.port(1)) as new:
            assert await proxy.ask(new, messages.plain(6)) is not None
        assert plain.requests[-1] == messages.plain(6)
        await client.aclose()


async def test_brokers_that_want_authentication_first_are_found_by_clients_as_at_the_start(tmp_path):
    async with (
        two_listeners_of_a_cluster(tmp_path) as (plain, secured, authority),
        serving(config_for({1: plain})) as proxy,
    ):
        secured.refuses_metadata = True
        upstream = upstream_at(secured, tls=authority.upstream_tls())
        await apply(proxy, replace(proxy.server.config, upstream=upstream))
        async with await connect(proxy.port(1)) as client:
            assert await proxy.ask(client, messages.plain(1)) is not None
        assert secured.requests[-1] == messages.plain(1)


# -- log and drain --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("restored_logging")
async def test_the_log_and_the_time_to_drain_follow(capfd):
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        await apply(proxy, replace(proxy.server.config, log=Log(format="json", level="error")))
        capfd.readouterr()
        structlog.get_logger("test").warning("not shown")
        structlog.get_logger("test").error("shown")
        assert '"shown"' in (said := capfd.readouterr().err)
        assert "not shown" not in said
        await apply(proxy, replace(proxy.server.config, drain=Drain(grace_s=0.1)))
        brokers[1].holds_back = trio.Event()
        client = await connect(proxy.port(1))
        await client.send_all(messages.plain(1))
        await brokers[1].got(messages.plain(1))
        proxy.server.stop()
        with trio.fail_after(3):
            assert await has_ended(client)
        await client.aclose()


# -- refused ---------------------------------------------------------------------------------------------------


def state_of(server: Server) -> list[object]:
    """All that another configuration would change."""
    parts, families = server._parts, server.metrics.registry.collect()
    series = {
        (sample.name, *sample.labels.items()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(("epochgate_tls", "epochgate_known", "epochgate_hidden"))
    }
    return [
        server.config,
        server.listeners.all,
        [one.bound for one in server.listeners.all],
        [one.deps for one in server.listeners.all],
        [dict(one.addresses) for one in server.listeners.all],
        server.certificates,
        [one.context for one in server.certificates],
        parts.dialer.bootstrap,
        parts.dialer._open,
        {node_id: parts.nodes.address_of(node_id) for node_id in parts.nodes},
        parts.nodes.cluster_id,
        parts.connections._limits,
        series,
    ]


Mistake = Callable[[Config, Path, socket.socket], Config]


def a_taken_port(config: Config, folder: Path, taken: socket.socket) -> Config:
    return replace(config, listeners=(*config.listeners, a_listener(nodes={"7": taken.getsockname()[1]})))


def a_bad_file(config: Config, folder: Path, taken: socket.socket) -> Config:
    tls = Authority(folder).listener_tls()
    Path(tls.key).write_text("no key")
    return with_listener(config, tls=tls)


def a_certificate_for_other_names(config: Config, folder: Path, taken: socket.socket) -> Config:
    names = {"nodes_by_name": "b{node}.example", "bootstrap_name": "kafka.example", "nodes": {}}
    return with_listener(config, **names, advertised_host=None, tls=Authority(folder).listener_tls())


def nobody_there(config: Config, folder: Path, taken: socket.socket) -> Config:
    return replace(config, upstream=Upstream(bootstrap=("127.0.0.1:1",)))


def nobody_who_answers(config: Config, folder: Path, taken: socket.socket) -> Config:
    bootstrap = (f"127.0.0.1:{taken.getsockname()[1]}",)
    return replace(config, upstream=Upstream(bootstrap=bootstrap, connect_timeout_s=0.1))


def no_tls_there(config: Config, folder: Path, taken: socket.socket) -> Config:
    upstream = replace(config.upstream, tls=Authority(folder).upstream_tls(), connect_timeout_s=0.2)
    return replace(config, upstream=upstream)


REFUSED: Mapping[Mistake, str] = {
    a_taken_port: "]`: can't listen on 127.0.0.1:",
    a_bad_file: "`listeners[0].tls`:",
    a_certificate_for_other_names: "`listeners[0].tls`:",
    nobody_there: "`upstream`: 127.0.0.1:1:",
    nobody_who_answers: "does not answer",
    no_tls_there: "no answer within 0.2 s",
}


@pytest.mark.parametrize("mistake", REFUSED, ids=lambda mistake: mistake.__name__)
async def test_what_can_not_be_had_changes_nothing_at_all(mistake: Mistake, tmp_path):
    authority = Authority(tmp_path / "before")
    with socket.create_server((LOCAL, 0)) as taken:
        async with a_cluster(1) as brokers:
            config = config_for(brokers, listeners=(a_listener(), a_listener(tls=authority.listener_tls())))
            async with serving(config) as proxy, await connect(proxy.port(1)) as client:
                assert await proxy.ask(client, messages.plain(1)) is not None
                everything = with_listener(
                    replace(config, limits=Limits(max_connections=1), drain=Drain(grace_s=1)),
                    nodes={"0-3": 0, "5-6": 0},
                    advertised_host="other.example",
                )
                other = replace(everything, listeners=(*everything.listeners, a_listener(bind="127.0.0.2")))
                before, opened = state_of(proxy.server), descriptors()
                with pytest.raises(ConfigError) as caught:
                    await apply(proxy, mistake(other, tmp_path, taken))
                assert any(REFUSED[mistake] in problem for problem in caught.value.problems)
                await settled()
                assert state_of(proxy.server) == before
                assert descriptors() == opened
                assert await proxy.ask(client, messages.plain(2)) is not None
                async with await connect(proxy.port(1)) as new:
                    assert (await told(proxy, new, 3))[1] == (LOCAL, proxy.port(1))
                await apply(proxy, other)
                assert (await told(proxy, client, 4))[1] == ("other.example", proxy.port(1))


async def test_another_cluster_is_refused():
    async with a_cluster(1) as ours, a_cluster(1) as theirs:
        ours[1].cluster_id, theirs[1].cluster_id = "ours", "theirs"
        async with serving(config_for(ours)) as proxy:
            before = state_of(proxy.server)
            with pytest.raises(ConfigError, match="of the cluster theirs, and not of ours"):
                await apply(proxy, replace(proxy.server.config, upstream=upstream_at(theirs[1])))
            assert state_of(proxy.server) == before
            async with await connect(proxy.port(1)) as client:
                assert await proxy.ask(client, messages.plain(1)) is not None
            assert ours[1].requests[-1] == messages.plain(1)


async def test_all_problems_are_told_at_once(tmp_path):
    with socket.create_server((LOCAL, 0)) as taken:
        async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
            config = proxy.server.config
            for mistake in (a_bad_file, a_taken_port, nobody_there):
                config = mistake(config, tmp_path, taken)
            with pytest.raises(ConfigError) as caught:
                await apply(proxy, config)
            assert len(caught.value.problems) == 3


async def test_accounts_are_read_with_the_rest_and_put_in_force_with_it(tmp_path):
    class Account:
        def __init__(self) -> None:
            self.users: list[str] = []
            self.is_readable = True

        def prepare(self, config: Config, listeners: Mapping[int, Listener]) -> Callable[[], None]:
            if not self.is_readable:
                raise UnreadableSecret("password: no such file")
            return lambda: self.users.append(f"{sorted(listeners)}")

    account, inside = Account(), a_listener(bind="127.0.0.2")
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        proxy.server._parts = replace(proxy.server._parts, accounts=(account,))
        config = proxy.server.config
        await apply(proxy, replace(config, listeners=(inside, *config.listeners)))
        assert account.users == ["[0, 1]"]
        await apply(proxy, replace(config, listeners=(inside,)))
        assert account.users == ["[0, 1]", "[1]"], "a listener keeps its number"
        account.is_readable = False
        before = state_of(proxy.server)
        with pytest.raises(ConfigError, match="password: no such file"):
            await apply(proxy, config)
        assert state_of(proxy.server) == before


# -- when ------------------------------------------------------------------------------------------------------


async def test_it_waits_until_clients_are_served():
    async with a_cluster(1) as brokers:
        brokers[1].holds_back = trio.Event()
        server = Server(config_for(brokers), Scripted())
        config = with_listener(server.config, advertised_host="other.example")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            nursery.start_soon(server.reconfigure, config)
            await settled()
            assert server.config is not config
            brokers[1].holds_back.set()
            with trio.fail_after(10):
                while server.config is not config:  # noqa: ASYNC110  another task puts it in force
                    await trio.sleep(0.01)
            proxy = Running(server)
            async with await connect(proxy.port()) as client:
                assert (await told(proxy, client, 1))[1][0] == "other.example"
            server.stop()


async def test_a_process_that_drains_refuses_it_and_one_under_way():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        server, port = proxy.server, proxy.port(1)
        client = await connect(port)
        assert await proxy.ask(client, messages.plain(1)) is not None
        refusals: list[str] = []

        async def try_it() -> None:
            upstream = replace(server.config.upstream, connect_timeout_s=5)
            config = with_listener(replace(server.config, upstream=upstream), nodes={"0-5": 0})
            with pytest.raises(ConfigError) as caught:
                await apply(proxy, config)
            refusals.extend(caught.value.problems)

        brokers[1].holds_back = trio.Event()
        await client.send_all(messages.plain(2))
        await brokers[1].got(messages.plain(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(try_it)
            await settled()
            server.stop()
            await settled()
            nursery.start_soon(try_it)
            await settled()
            brokers[1].holds_back.set()
        assert refusals == ["the process is draining"] * 2
        assert 5 not in server.listeners.all[0].bound.ports
        await client.aclose()


async def test_one_comes_after_the_other():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        first = with_listener(proxy.server.config, nodes={"0-4": 0}, advertised_host="first.example")
        first = replace(first, upstream=replace(first.upstream, connect_timeout_s=5))
        second = with_listener(proxy.server.config, nodes={"0-5": 0}, advertised_host="second.example")
        brokers[1].holds_back = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply, proxy, first)
            await settled()
            nursery.start_soon(apply, proxy, second)
            await settled()
            assert proxy.server.config.listeners[0].advertised_host == LOCAL, "the first is under way"
            brokers[1].holds_back.set()
        async with await connect(proxy.port(5)) as client:
            assert (await told(proxy, client, 1))[1] == ("second.example", proxy.port(1))


async def test_many_in_a_row_leave_nothing_behind(clock):
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        config = proxy.server.config
        client = await connect(proxy.port(1))
        assert await proxy.ask(client, messages.plain(1)) is not None
        opened, tasks = descriptors(), trio.lowlevel.current_statistics().tasks_living
        for n in range(10):
            other = a_listener(bind="127.0.0.2", proxy_protocol=ProxyProtocol(trusted=(LOCAL,)))
            more = with_listener(config, nodes={"0-9": 0}, advertised_host=f"h{n}.example")
            await apply(proxy, replace(more, listeners=(other, *more.listeners)))
            await settled()
            await apply(proxy, config)
        await settled()
        assert descriptors() == opened
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert await proxy.ask(client, messages.plain(2)) is not None
        await client.aclose()
