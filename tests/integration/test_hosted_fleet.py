"""Java consumers whose group is hosted by one of two replicas (`mode: host` with `fleet`), behind a load balancer.

The balancer does not bind a client to a replica: who comes to the one that is not the host is told to look for the
coordinator again, and connects anew until it gets to the host.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import Kafka
from support.entry import NODE_IDS, Proxy
from support.load import Load
from support.waiting import eventually
from test_hosted_groups import MODE, PARTITIONS, Story

from tools import haproxy
from tools.kafka.ports import free_port_block, free_ports

FRONT = "127.0.0.1"
ADDRESSES = ("127.0.0.2", "127.0.0.3")
ASSIGNORS = ("logged-cooperative-sticky", "reversed")
SESSION_MS = 8_000

needs_haproxy = pytest.mark.usefixtures("haproxy_installed")

_HAPROXY = """\
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
  default-server check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
"""
_PORT = """\
listen port{port}
  bind {front}:{port}
  balance random
{servers}
"""


class Service:
    """Two proxies that are one fleet, and the address under which clients find both."""

    def __init__(self, bootstrap: str, folder: Path, fleet: dict[str, object], mode: str) -> None:
        (port,) = free_ports(1)
        nodes = free_port_block(NODE_IDS)
        self.bootstrap = f"{FRONT}:{port}"
        self._config = folder / "haproxy.cfg"
        self.proxies = [
            Proxy(
                bootstrap,
                folder / f"proxy-{number}",
                policy=MODE.format(mode=mode),
                sole_process=False,
                fleet=fleet,
                more={
                    "experimental": True,
                    "listeners": [
                        {
                            "bind": address,
                            "port": port,
                            "advertised_host": FRONT,
                            "nodes": {f"0-{NODE_IDS - 1}": nodes},
                        }
                    ],
                },
            )
            for number, address in enumerate(ADDRESSES)
        ]
        ports = (port, *range(nodes, nodes + NODE_IDS))
        self._config.write_text(_HAPROXY + "".join(map(_balanced, ports)))

    @contextlib.contextmanager
    def running(self) -> Iterator["Service"]:
        """Both replicas and the balancer, until the end."""
        with contextlib.ExitStack() as stack:
            for proxy in self.proxies:
                proxy.start()
                stack.callback(proxy.stop)
            balancer = subprocess.Popen(
                [haproxy.program() or "haproxy", "-db", "-f", str(self._config)], stdin=subprocess.DEVNULL
            )
            stack.callback(balancer.wait)
            stack.callback(balancer.kill)
            yield self

    def host(self) -> Proxy:
        """The replica that hosts members now."""
        return eventually(
            lambda: [proxy for proxy in self.proxies if hosted_members(proxy)],
            lambda found: len(found) == 1,
            what="one replica hosts members",
            timeout_s=60,
        )[0]

    def set_mode(self, mode: str) -> None:
        """Change the policy of both."""
        for proxy in self.proxies:
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))


def _balanced(port: int) -> str:
    """What the balancer does with one port."""
    servers = "\n".join(f"  server {address} {address}:{port}" for address in ADDRESSES)
    return _PORT.format(port=port, front=FRONT, servers=servers)


def hosted_members(proxy: Proxy) -> float:
    """How many members a replica hosts; none if it is gone."""
    with contextlib.suppress(OSError):
        return sum(
            float(line.split()[-1])
            for line in proxy.metrics().splitlines()
            if line.startswith("epochgate_members{") and 'mode="host"' in line
        )
    return 0.0


def member_log(kafka: Kafka, group: str) -> dict[str, object]:
    """What a fleet of its own is told of its member log, which names who hosts which group."""
    return {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 2,
        "replication": 1,
        "expires": True,
    }


@pytest.fixture
def fleet(kafka, group):
    return member_log(kafka, group)


@pytest.mark.kafka
@pytest.mark.long
@needs_haproxy
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_host_that_is_killed_is_followed(assignor, kafka, consumers, folder: Path, group, fleet):
    topic = kafka.new_topic(partitions=PARTITIONS)
    with Service(kafka.bootstrap, folder, fleet, "host").running() as service, Load(kafka, topic) as load:
        story = Story(consumers, service, load, group, topic, assignor, session_timeout_ms=SESSION_MS)
        story.join(3)
        story.settled("three members")
        assert len(kafka.describe_classic(group).members) == 0
        service.host().kill()
        story.settled("the host was killed")
        story.join()
        story.settled("a fourth one has joined")
        story.end()
    story.check()


@pytest.mark.kafka
@pytest.mark.long
@needs_haproxy
def test_a_live_group_goes_in_and_back(kafka, consumers, folder: Path, group, fleet):
    topic = kafka.new_topic(partitions=PARTITIONS)
    with Service(kafka.bootstrap, folder, fleet, "observe").running() as service, Load(kafka, topic) as load:
        story = Story(consumers, service, load, group, topic, ASSIGNORS[0], session_timeout_ms=SESSION_MS)
        story.join(3)
        story.settled("the classic group")
        for mode, at_the_broker in (("host", 0), ("observe", 3)):
            service.set_mode(mode)
            eventually(
                lambda: len(kafka.describe_classic(group).members),
                lambda count, wanted=at_the_broker: count == wanted,
                what=f"{at_the_broker} members at the broker, in mode {mode}",
                timeout_s=120,
            )
            story.settled(f"in mode {mode}")
        story.end()
    story.check()
