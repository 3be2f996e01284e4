"""Runs the embedded coordinator as its own process: `python -m benchmarks.embedded PARTITIONS`."""

import sys

import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from proxy.server.process import tune_gc


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
