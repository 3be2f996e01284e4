"""Runs HAProxy as a plain TCP relay: the least that any process between client and broker costs on this machine.

It does not parse Kafka, moves all bytes with ``splice`` as Epochgate does, is written in C, and has one thread. The
broker has its own listener behind it, whose advertised port is HAProxy's.
"""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator

from benchmarks.lib.test_bed import BUILD, PATIENCE_S
from tools import haproxy
from tools.kafka.ports import LOOPBACK

LISTENER = "RELAYED"

_CONFIG = """\
global
  nbthread 1
  maxconn 6000
defaults
  mode tcp
  option splice-request
  option splice-response
  timeout connect 10s
  timeout client 1h
  timeout server 1h
listen kafka
  bind {host}:{port}
  server broker {broker}
"""


@contextlib.contextmanager
def relay(port: int, broker: str) -> Iterator[int]:
    """Run HAProxy on a port in front of a broker's host:port; return its process id."""
    folder = BUILD / "bench" / "haproxy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "haproxy.cfg").write_text(_CONFIG.format(host=LOOPBACK, port=port, broker=broker))
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [haproxy.program() or "haproxy", "-db", "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log
        )
    with serving(process, port):
        yield process.pid


@contextlib.contextmanager
def serving(process: subprocess.Popen[bytes], port: int) -> Iterator[None]:
    """Wait until a started relay accepts connections on its port; end it afterwards."""
    try:
        _wait_open(port, process)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port)):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(
                f"the relay does not listen on port {port}; HAProxy's log is in build/bench/haproxy"
            )
        time.sleep(0.05)
