"""`make bench-resources`: what one proxy process takes of processor and memory, to size a pod's requests by.

Members and idle connections are at the embedded coordinator, records at a real Kafka. Each row has a proxy of its own,
so that its peaks include its start. Peak memory is the kernel's own mark (VmHWM); the peak of the processor is the
busiest second.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import throughput
from benchmarks.crowd import Crowd
from benchmarks.members import GROUP_SIZE, embedded, make_topic
from benchmarks.test_bed import BUILD, Gateway, cpu_s, kafka, kafka_version
from benchmarks.wire import Line
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
HEADER = [
    "load",
    "members",
    "connections",
    "MB/s",
    "CPU steady",
    "CPU peak",
    "RSS steady",
    "PSS steady",
    "RSS peak",
]


class Row(msgspec.Struct):
    """One load on one process: CPU in millicores, memory in MiB."""

    load: str
    members: int
    connections: int
    mb_s: float
    cpu: int
    cpu_peak: int
    rss: int
    pss: int
    rss_peak: int


class Watch(threading.Thread):
    """Keeps the busiest second of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.busiest = 0.0
        self._pid = pid
        self._ended = threading.Event()

    def run(self) -> None:
        used, at = 0.0, time.perf_counter()  # from zero: its start counts
        while not self._ended.wait(_SECOND_S):
            now_used, now = cpu_s(self._pid), time.perf_counter()
            self.busiest = max(self.busiest, (now_used - used) / (now - at))
            used, at = now_used, now

    def end(self) -> None:
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


def row(load: str, proxy: Gateway, watch: Watch, window: Callable[[], float], **of: int) -> Row:
    """Measure while ``window`` runs, which returns the MB that went through."""
    pid = proxy.process.pid
    used, began = cpu_s(pid), time.perf_counter()
    mb = window()
    took = time.perf_counter() - began
    steady = (cpu_s(pid) - used) / took
    return Row(
        load=load,
        members=of.get("members", 0),
        connections=of.get("connections", 0),
        mb_s=round(mb / took, 1),
        cpu=round(steady * 1000),
        cpu_peak=round(max(watch.busiest, steady) * 1000),
        rss=_mib(pid, "smaps_rollup", "Rss"),
        pss=_mib(pid, "smaps_rollup", "Pss"),
        rss_peak=_mib(pid, "status", "VmHWM"),
    )


def _mib(pid: int, file: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return round(int(line.split()[1]) / 1024)
    raise LookupError(field)


def _rest() -> float:
    time.sleep(WINDOW_S)
    return 0.0


def members(count: int) -> Row:
    """Serve classic members that are translated, in groups of ten, with a heartbeat every 3 s each."""
    with embedded(GROUP_SIZE) as (bootstrap, _), watched(bootstrap) as (proxy, watch):
        make_topic(proxy.bootstrap, "members")
        crowd = Crowd([proxy.address], "members", count, GROUP_SIZE)
        crowd.join_all()

        def serve() -> float:
            crowd.run(WINDOW_S)
            return 0.0

        found = row("members", proxy, watch, serve, members=count, connections=crowd.connection_count)
        crowd.close()
        return found


def connections(count: int) -> Row:
    """Keep connections, each of which has asked once, so that it has its own to the broker."""
    with embedded(1) as (bootstrap, _), watched(bootstrap) as (proxy, watch):
        lines = [Line(proxy.bootstrap) for _ in range(count)]
        for line in lines:
            line.call(ApiKey.METADATA, 8, MetadataRequest(topics=()))
        found = row("idle connections" if count else "idle", proxy, watch, _rest, connections=count)
        for line in lines:
            line.close()
        return found


def records(*, on_tls: bool) -> Iterator[Row]:
    """Write and read records of 1 KiB, as fast as one client can."""
    tls = TlsFiles(BUILD / "bench" / "tls-files") if on_tls else None
    count = RECORDS // LESS_ON_TLS if on_tls else RECORDS
    listeners = [ExtraListener("TLS", "SSL", tls.broker_settings())] if tls else []
    ca = str(tls.ca) if tls else ""
    with kafka(*listeners) as cluster:
        topic = f"resources-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        bootstrap = cluster.bootstrap_of("TLS") if tls else cluster.bootstrap
        for what in ("produce", "consume"):
            with watched(bootstrap, tls) as (proxy, watch):

                def transfer(what: str = what, proxy: Gateway = proxy) -> float:
                    throughput.apart(what, proxy.bootstrap, topic, count, ca)
                    return count * throughput.RECORD / 1e6

                yield row(f"{what}, {'TLS' if tls else 'plain'}", proxy, watch, transfer)


def rows() -> Iterator[Row]:
    yield connections(0)
    for count in CONNECTIONS:
        yield connections(count)
    for count in MEMBERS:
        yield members(count)
    for on_tls in (False, True):
        yield from records(on_tls=on_tls)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    raise_file_limit()
    print(_line(HEADER), _line(["---"] * len(HEADER)), sep="\n")
    found = []
    for one in rows():
        found.append(one)
        print(_line(msgspec.structs.astuple(one)), flush=True)
    report = {"kafka": kafka_version(), "rows": [msgspec.structs.asdict(one) for one in found]}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
