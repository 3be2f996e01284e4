"""How long a process needs to read a member log of 100,000 members: ``python -m benchmarks.member_log_replay``.

Starts a broker of its own, and writes one record of each member before it measures.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from proxy.config.fleet import Fleet
from proxy.member_log.driver import FleetDriver
from proxy.member_log.topic import prepare_topic
from proxy.metrics.registry import Metrics
from tools.kafka.cluster import Cluster
from translation.member_log.formats import DEFAULT_FORMAT, FORMAT_HEADER, FORMATS
from translation.member_log.records import (
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    member_key,
    partition_of,
)

_MEMBERS_OF_GROUP = 50


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100_000)
    members = parser.parse_args().members
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder) / "kafka") as cluster:
        fleet = Fleet(kafka={"bootstrap.servers": cluster.bootstrap}, replication=1)
        _fill(fleet, members)
        print(trio.run(_replay, fleet, members))


def _fill(fleet: Fleet, members: int) -> None:
    """Write one record of each member, faster than replicas would."""
    prepare_topic(AdminClient(dict(fleet.kafka)), fleet)
    producer = Producer({**fleet.kafka, "linger.ms": 50, "queue.buffering.max.messages": members + 1})
    written_in = FORMATS[DEFAULT_FORMAT]
    value = written_in.encode(
        MemberRecord(Kind.SERVED, 0, first=True, server="epochgate-0", session_timeout_ms=10_000)
    )
    for number in range(members):
        key = member_key(f"group-{number // _MEMBERS_OF_GROUP}", f"epochgate-{number:032x}")
        producer.produce(
            fleet.topic,
            key=encode_key(key, Writer(b"0123456789abcdef")),
            value=value,
            partition=partition_of(key, fleet.partitions),
            headers={FORMAT_HEADER: written_in.header},
        )
        producer.poll(0)
    producer.flush(60)


def _ignore(_said: object) -> None:
    """What the log says is of no interest here."""


async def _replay(fleet: Fleet, members: int) -> str:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    driver = FleetDriver(fleet, dict(fleet.kafka), Metrics())
    began = time.monotonic()
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run, _ignore, _ignore, _ignore)
        ready = await driver.wait_ready()
        took_s = time.monotonic() - began
        nursery.cancel_scope.cancel()
    known = sum(len(state.view) for state in driver.log._members.partitions)  # noqa: SLF001
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    return (
        f"{known} of {members} members, ready={ready}: {took_s:.1f} s, {grown_mib:.0f} MiB more at the peak"
    )


if __name__ == "__main__":
    main()
