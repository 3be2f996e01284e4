"""``python -m coordinator.broker --nodes 3 --port 9092 --topic orders:6``: the embedded broker as a process.

It prints the bootstrap addresses when clients can connect, logs to stderr, and runs until SIGINT or SIGTERM.
"""

import argparse
import signal
import sys
from pathlib import Path

import structlog
import trio

from coordinator import broker_settings
from coordinator.broker.cluster import EmbeddedCluster
from coordinator.broker.server import serve
from coordinator.config import CoordinatorConfig


def main() -> int:
    """Run the embedded broker until a signal ends it."""
    parser = _parser()
    options = parser.parse_args()
    try:
        config = _config(options)
    except ValueError as error:
        parser.error(f"argument --set: {error}")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    trio.run(_run, options, config)
    return 0


def _config(options: argparse.Namespace) -> CoordinatorConfig:
    """Return the coordinator's settings. Raises ValueError for a setting that Kafka would not start with."""
    experiments = CoordinatorConfig(
        experimental_client_assignors=options.experimental_client_assignors,
        experimental_connect_groups=options.experimental_connect_groups,
    )
    return broker_settings.with_settings(experiments, dict(options.set))


async def _run(options: argparse.Namespace, config: CoordinatorConfig) -> None:
    ports = [options.port + number if options.port else 0 for number in range(options.nodes)]
    cluster = EmbeddedCluster(
        nodes=options.nodes,
        host=options.host,
        ports=ports,
        log_directory=options.log_directory,
        auto_create_partitions=options.auto_create_partitions,
        metrics_port=options.metrics_port,
        metrics_host=options.metrics_host,
        coordinator=config,
    )
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with serve(cluster):
            for name, partitions in options.topic:
                if name not in cluster.topics:  # else it was kept from before
                    cluster.create_topic(name, partitions)
            print(f"embedded broker, for development only, on {cluster.bootstrap}", flush=True)
            if cluster.metrics_port is not None:
                print(f"metrics on http://{cluster.metrics_host}:{cluster.metrics_port}/metrics", flush=True)
            async for _ in signals:
                return


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m coordinator.broker",
        description=__doc__,
        epilog=f"settings for --set, with their defaults:\n{broker_settings.described()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=9092, help="of the first node; the others follow; 0: free ones"
    )
    parser.add_argument("--topic", type=_topic, action="append", default=[], metavar="NAME:PARTITIONS")
    parser.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the group coordinator, as group.consumer.max.size=10; listed below; may be repeated",
    )
    parser.add_argument(
        "--auto-create-partitions",
        type=int,
        default=1,
        help="of topics that clients ask for; 0: none are created",
    )
    parser.add_argument(
        "--log-directory", type=Path, help="keep topics and groups there over a restart; without, in memory"
    )
    parser.add_argument(
        "--metrics-port", type=int, help="serve Prometheus metrics there; 0: a free port; without, none"
    )
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", help="of that port, which has no security; only this machine"
    )
    parser.add_argument(
        "--experimental-client-assignors",
        action="store_true",
        help="an experiment: let members compute the assignment, by calls that no Kafka has",
    )
    parser.add_argument(
        "--experimental-connect-groups",
        action="store_true",
        help="an experiment: groups of Connect workers, by calls that no Kafka has",
    )
    return parser


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.rpartition(":")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PARTITIONS")
    return name, int(partitions)


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
