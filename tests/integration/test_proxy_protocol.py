"""Clients behind a real HAProxy in TCP mode, which says by the PROXY protocol whose connections it forwards.

HAProxy has the address that clients know and the same ports as Epochgate, and connects from an address of its own, the
only trusted one.
"""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from support.broker import Kafka
from support.clients import KAFKA_PYTHON
from support.entry import Proxy, running_proxy
from support.ownership import Partition
from support.raw import RawConnection
from support.raw_member import RawMember
from support.waiting import eventually

from proxy.workers.affinity import worker_of
from tests.proxy.fakes.proxy_headers import binary, line
from tools import haproxy

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("haproxy_installed")]

FRONT, BALANCER, BEHIND = "127.0.0.30", "127.0.0.40", "127.0.0.31"
STRANGER = "127.0.0.66"
CLIENT_ID = "epochgate-raw"
CLIENTS = {
    worker: next(
        host for host in (f"127.0.0.{n}" for n in range(100, 200)) if worker_of(host, 2, CLIENT_ID) == worker
    )
    for worker in (0, 1)
}
"""A client's address of each of two workers."""

_CONFIG = """\
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  default-server {send} check check-send-proxy inter 200ms source {balancer}
"""
_PORT = """\
listen port{port}
  bind {front}:{port}
  server epochgate {behind}:{port}
"""


@dataclass(frozen=True)
class Balanced:
    """Epochgate with two workers behind HAProxy."""

    proxy: Proxy

    @property
    def direct(self) -> str:
        """host:port of the bootstrap port, past HAProxy."""
        return self.proxy.bootstrap.replace(FRONT, BEHIND)

    def count(self, name: str, **labels: str) -> float:
        """The sum of a metric over all series with these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in self.proxy.metrics().splitlines()
            if re.match(rf"epochgate_{name}[{{ ]", line) and all(one in line for one in wanted)
        )

    def headers(self, result: str) -> float:
        """PROXY headers with this result."""
        return self.count("client_to_proxy_proxy_headers_total", result=result)

    def served_by(self) -> dict[str, set[str]]:
        """Which worker served each client address, by the journals of the workers."""
        found: dict[str, set[str]] = {}
        for file in self.proxy.folder.glob("journal/**/*.jsonl"):
            for text in file.read_text().splitlines():
                event = json.loads(text)
                if event["client_host"]:
                    found.setdefault(event["client_host"], set()).add(event["replica"].rpartition("/")[2])
        return found


@contextlib.contextmanager
def balanced(kafka: Kafka, folder: Path, send: str) -> Iterator[Balanced]:
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(
            running_proxy(
                kafka.bootstrap,
                folder / "proxy",
                bind=BEHIND,
                advertised_host=FRONT,
                workers=2,
                listener={"proxy_protocol": {"trusted": [BALANCER]}},
                journal={"path": "journal", "file_max_age_s": 1},
            )
        )
        file = folder / "haproxy.cfg"
        file.write_text(
            _CONFIG.format(send=send, balancer=BALANCER)
            + "".join(_PORT.format(port=port, front=FRONT, behind=BEHIND) for port in proxy.ports)
        )
        log = stack.enter_context((folder / "haproxy.log").open("wb"))
        process = subprocess.Popen(
            [haproxy.program() or "haproxy", "-db", "-f", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield Balanced(proxy)


@pytest.fixture(params=["send-proxy", "send-proxy-v2"])
def behind(request, kafka, folder) -> Iterator[Balanced]:
    with balanced(kafka, folder, request.param) as one:
        yield one


def test_two_workers_behind_one_balancer_share_the_clients(behind, kafka, consumers, group):
    """Page, metrics, journal and the choice of the worker go by the client's address, not by the balancer's."""
    proxy = behind.proxy
    topic = kafka.new_topic(partitions=2)
    with contextlib.ExitStack() as stack:
        for worker, host in CLIENTS.items():
            group_id = f"translate-{group}-{worker}"
            member = stack.enter_context(
                eventually(
                    lambda host=host, group_id=group_id: _joined(proxy, group_id, topic, host),
                    what="HAProxy forwards to Epochgate, and the group has a coordinator",
                )
            )
            member.sync(partitions=2)
            (shown,) = proxy.group(group_id)["members"]
            assert (shown["client_host"], shown["protocol"]) == (host, "translated")
        by_library = consumers.start(KAFKA_PYTHON, proxy.bootstrap, f"translate-{group}", topic, "range")
        sent = {(Partition(topic, one.partition), one.offset) for one in kafka.produce(topic, 2)}
        eventually(lambda: sent <= by_library.consumed(), what="records pass through HAProxy and Epochgate")
        served_by = eventually(
            behind.served_by, lambda found: found.keys() >= set(CLIENTS.values()), what="the journal"
        )
    assert {host: served_by[host] for host in CLIENTS.values()} == {
        host: {str(worker)} for worker, host in CLIENTS.items()
    }
    assert BALANCER not in served_by
    assert behind.headers("client") >= 6
    assert behind.headers("invalid") == behind.headers("timeout") == behind.headers("peer") == 0


def _joined(proxy: Proxy, group_id: str, topic: str, host: str) -> RawMember | None:
    try:
        member = RawMember(proxy.bootstrap, group_id, topic, source_host=host)
    except (OSError, LookupError):
        return None
    member.join()
    return member


def test_health_checks_of_haproxy_are_quiet(behind):
    """They send a header with HAProxy's own address in version 1, LOCAL in version 2, and close."""
    eventually(
        lambda: behind.headers("health_check"),
        lambda n: n > 3 * len(behind.proxy.ports),
        what="HAProxy checks all ports three times",
    )
    assert behind.count("client_to_proxy_connections_total") == 0
    assert behind.headers("invalid") == behind.headers("timeout") == 0
    log = behind.proxy.log.read_text()
    assert "connection" not in log
    assert BALANCER not in log
    assert "DOWN" not in (behind.proxy.folder.parent / "haproxy.log").read_text()


def test_a_forged_header_from_an_untrusted_address_changes_nothing(kafka, folder):
    with balanced(kafka, folder, "send-proxy-v2") as behind:
        for n, header in enumerate((line, binary), start=1):
            with contextlib.closing(RawConnection(behind.direct, source_host=STRANGER)) as forger:
                forger.send_bytes(header(CLIENTS[0]))
                with pytest.raises(ConnectionError):
                    forger.receive_frame()
            eventually(
                lambda n=n: behind.count("client_to_proxy_errors_total", kind="proxy_header") == n,
                what="it is counted",
            )
        log = behind.proxy.log.read_text()
        assert STRANGER in log
        assert CLIENTS[0] not in log
        with contextlib.closing(RawConnection(behind.direct, source_host=STRANGER)) as stranger:
            assert stranger.call(ApiVersionsRequest()).error_code == 0
        assert behind.headers("client") == 0
