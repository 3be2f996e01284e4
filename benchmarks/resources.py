"""`make bench-resources`: what one proxy process takes of processor and memory, to size a pod's requests by.

Members and idle connections are at the embedded coordinator, records at a real Kafka. Each row has a proxy of its own,
so that its peaks include its start. Peak memory is the kernel's own mark (VmHWM); the peak of the processor is the
busiest second. Connections are those that the proxy counted.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import throughput
from benchmarks.lib.crowd import Crowd
from benchmarks.lib.embedded import embedded, make_topic
from benchmarks.lib.test_bed import BUILD, Gateway, cpu_s, kafka, kafka_version
from benchmarks.lib.wire import Line
from benchmarks.members import GROUP_SIZE
from protocol_codecs import ApiKey
from protocol_codecs.messages.metadata import MetadataRequest
from proxy.runtime.fd_limits import raise_file_limit
from tools.kafka.cluster import ExtraListener
from tools.kafka.tls_files import TlsFiles

REPORT = BUILD / "bench-resources.json"
MEMBERS = (100, 1000, 3000)
CONNECTIONS = (100, 1000, 5000)
RECORDS = 400_000
LESS_ON_TLS = 4
WINDOW_S = 10.0
_SECOND_S = 1.0


class Row(msgspec.Struct):
    """One load on one process: CPU in millicores, memory in MiB."""

    load: str
    members: int
    connections: int
    mb_s: float = msgspec.field(name="MB/s")
    cpu_steady: int = msgspec.field(name="CPU steady")
    cpu_peak: int = msgspec.field(name="CPU peak")
    rss_steady: int = msgspec.field(name="RSS steady")
    pss_steady: int = msgspec.field(name="PSS steady")
    rss_peak: int = msgspec.field(name="RSS peak")


class Work(NamedTuple):
    """What was done while a process was measured."""

    seconds: float
    mb: float = 0.0


class Watch(threading.Thread):
    """Keeps the busiest second of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.busiest = 0.0
        self._pid = pid
        self._ended = threading.Event()

    def run(self) -> None:
        """Look once a second until :meth:`end`."""
        used, at = 0.0, time.perf_counter()  # from zero: its start counts
        while not self._ended.wait(_SECOND_S):
            now_used, now = cpu_s(self._pid), time.perf_counter()
            self.busiest = max(self.busiest, (now_used - used) / (now - at))
            used, at = now_used, now

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


@contextmanager
def watched(bootstrap: str, tls: TlsFiles | None = None) -> Iterator[tuple[Gateway, Watch]]:
    """Start a proxy, watched from its first second on."""
    proxy = Gateway(bootstrap, BUILD / "bench" / f"resources-{uuid4().hex[:6]}", tls=tls)
    proxy.launch()
    watch = Watch(proxy.process.pid)
    watch.start()
    try:
        proxy.await_ready()
        yield proxy, watch
    finally:
        watch.end()
        proxy.stop()


def row(load: str, proxy: Gateway, watch: Watch, work: Callable[[], Work], *, members: int = 0) -> Row:
    """Measure while ``work`` is done."""
    pid = proxy.process.pid
    used = cpu_s(pid)
    done = work()
    steady = (cpu_s(pid) - used) / done.seconds
    return Row(
        load=load,
        members=members,
        connections=_opened(proxy),
        mb_s=round(done.mb / done.seconds, 1),
        cpu_steady=round(steady * 1000),
        cpu_peak=round(max(watch.busiest, steady) * 1000),
        rss_steady=_mib(pid, "smaps_rollup", "Rss"),
        pss_steady=_mib(pid, "smaps_rollup", "Pss"),
        rss_peak=_mib(pid, "status", "VmHWM"),
    )


def _opened(proxy: Gateway) -> int:
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(proxy.get("metrics"))
        for sample in family.samples
        if sample.name == "epochgate_client_to_proxy_connections_total"
    )


def _mib(pid: int, file: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return round(int(line.split()[1]) / 1024)
    raise LookupError(field)


def _rest() -> Work:
    time.sleep(WINDOW_S)
    return Work(WINDOW_S)


def of_members(count: int) -> Row:
    """Serve classic members that are translated, in groups of ten, with a heartbeat every 3 s each."""
    with embedded(GROUP_SIZE) as (bootstrap, _), watched(bootstrap) as (proxy, watch):
        make_topic(bootstrap, "members")
        crowd = Crowd([proxy.address], "members", count, GROUP_SIZE)
        crowd.join_all()

        def serve() -> Work:
            crowd.run(WINDOW_S)
            return Work(WINDOW_S)

        found = row("members", proxy, watch, serve, members=count)
        crowd.close()
        return found


def of_connections(count: int) -> Row:
    """Keep connections, each of which has asked once, so that it has its own to the broker."""
    with embedded(1) as (bootstrap, _), watched(bootstrap) as (proxy, watch):
        lines = [Line(proxy.bootstrap) for _ in range(count)]
        for line in lines:
            line.call(ApiKey.METADATA, 8, MetadataRequest(topics=()))
        found = row("idle connections" if count else "idle", proxy, watch, _rest)
        for line in lines:
            line.close()
        return found


def _new_topic(bootstrap: str) -> str:
    topic = f"resources-{uuid4().hex[:8]}"
    AdminClient({"bootstrap.servers": bootstrap}).create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    return topic


def of_records(*, on_tls: bool) -> Iterator[Row]:
    """Write and read records of 1 KiB, as fast as one client can."""
    tls = TlsFiles(BUILD / "bench" / "tls-files") if on_tls else None
    count = RECORDS // LESS_ON_TLS if on_tls else RECORDS
    listeners = [ExtraListener("TLS", "SSL", tls.broker_settings())] if tls else []
    security = throughput.on_tls(str(tls.ca)) if tls else throughput.NONE
    with kafka(*listeners) as cluster:
        topic = _new_topic(cluster.bootstrap)
        bootstrap = cluster.bootstrap_of("TLS") if tls else cluster.bootstrap
        for what in ("produce", "consume"):
            with watched(bootstrap, tls) as (proxy, watch):

                def transfer(what: str = what, proxy: Gateway = proxy) -> Work:
                    seconds = throughput.apart(what, proxy.bootstrap, topic, count, security)
                    return Work(seconds, count * throughput.RECORD / 1e6)

                yield row(f"{what}, {'TLS' if tls else 'plain'}", proxy, watch, transfer)


def rows() -> Iterator[Row]:
    """Measure one load after another."""
    for count in (0, *CONNECTIONS):
        yield of_connections(count)
    for count in MEMBERS:
        yield of_members(count)
    for on_tls in (False, True):
        yield from of_records(on_tls=on_tls)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table row by row, and write the report."""
    raise_file_limit()
    heading = [field.encode_name for field in msgspec.structs.fields(Row)]
    print(_line(heading), _line(["---"] * len(heading)), sep="\n", flush=True)
    found = []
    for one in rows():
        found.append(one)
        print(_line(msgspec.structs.astuple(one)), flush=True)
    REPORT.write_bytes(msgspec.json.encode({"kafka": kafka_version(), "rows": found}) + b"\n")


if __name__ == "__main__":
    main()
