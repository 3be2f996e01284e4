"""The port of the metrics: ``python -m coordinator.broker --metrics-port`` as Prometheus asks it."""

import contextlib
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from coordinator.metrics.families import PREFIX
from protocol_codecs import all_messages as m
from tests.coordinator.kafka_backend import Connection
from tests.skips import program


class Broker:
    """The process, its clients' address, and the URL of its metrics."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "coordinator.broker", "--port", "0", "--topic", "foo:4", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self._said().split()[-1]
        self.url = self._said().split()[-1] if options else ""

    def metrics(self) -> str:
        with urllib.request.urlopen(self.url, timeout=30) as answer:  # noqa: S310 - its own URL
            assert answer.headers["content-type"].startswith("text/plain")
            return answer.read().decode()

    def end(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)
        return self._process.returncode

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker("--metrics-port", "0")
    yield started
    assert started.end() == 0


def status(request: urllib.request.Request | str) -> int:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - its own URL
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_prometheus_reads_what_clients_do(broker: Broker):
    host, _, port = broker.address.rpartition(":")
    client = Connection(host, int(port), "test")
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )
    client.call(request, 1)
    client.close()

    lines = broker.metrics().splitlines()

    assert f'{PREFIX}consumer_group_count{{state="Stable"}} 1.0' in lines
    assert f"{PREFIX}consumer_group_rebalance_count 1.0" in lines


def test_promtool_finds_nothing_wrong(broker: Broker):
    promtool = program("promtool", "prometheus")

    done = subprocess.run(
        [promtool, "check", "metrics"], input=broker.metrics(), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_metrics_are_there_and_only_for_reading(broker: Broker):
    assert status(f"{broker.url}?x=1") == 200
    assert status(broker.url.replace("/metrics", "/")) == 404
    assert status(urllib.request.Request(broker.url, method="POST", data=b"x")) == 405  # noqa: S310
    assert status(urllib.request.Request(broker.url, method="HEAD")) == 200  # noqa: S310


def test_it_is_on_loopback_unless_told_otherwise(broker: Broker):
    assert broker.url.startswith("http://127.0.0.1:")


def address_of(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    return host, int(port)


@pytest.mark.parametrize(
    "sent", [b"\x00\x01 no HTTP\r\n\r\n", b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000, b""]
)
def test_whoever_speaks_no_http_is_disconnected(broker: Broker, sent: bytes):
    connection = socket.create_connection(address_of(broker), timeout=30)
    with connection, contextlib.suppress(OSError):  # it need not read all of it
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""

    assert "group_count" in broker.metrics()


def test_connections_are_bounded(broker: Broker):
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(address_of(broker), timeout=30)) for _ in range(20)
        ]
        closed = 0
        for connection in opened[16:]:
            closed += connection.recv(1) == b""

    assert closed == 4
    assert "group_count" in broker.metrics()


def test_without_the_option_there_is_no_port():
    quiet = Broker()

    assert quiet.end() == 0
    assert quiet.url == ""
