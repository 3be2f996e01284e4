"""Runs the embedded coordinator as its own process: `python -m benchmarks.lib.embedded PARTITIONS`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from benchmarks.lib.wire import Line
from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from protocol_codecs import ApiKey
from protocol_codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from proxy.server.process import tune_gc


@contextmanager
def embedded(partitions: int) -> Iterator[tuple[str, int]]:
    """Start the embedded coordinator in its own process; return its bootstrap address and its process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.lib.embedded", str(partitions)], stdout=subprocess.PIPE, text=True
    )
    if process.stdout is None:
        raise RuntimeError("no pipe")
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def make_topic(bootstrap: str, topic: str) -> None:
    """Create the topic with a Metadata request to the embedded coordinator."""
    line = Line(bootstrap)
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=True)
    line.call(ApiKey.METADATA, 8, request)
    line.close()


async def main() -> None:
    cluster = EmbeddedCluster(
        auto_create_partitions=int(sys.argv[1]),
        coordinator=CoordinatorConfig(classic_initial_rebalance_delay_ms=0),
    )
    async with serve(cluster) as running:
        print(running.bootstrap, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    tune_gc()
    trio.run(main)
