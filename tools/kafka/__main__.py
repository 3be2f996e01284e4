"""`python3 -m tools.kafka up|down|status|jars`: the cluster behind `make kafka-up` and `make kafka-down`."""

import argparse
import shutil
import sys
from pathlib import Path

from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster
from tools.kafka.ports import is_free

FOLDER = RUN / "up"
FIRST_PORT = 9092


def main() -> int:
    """Run one command; problems that the user can fix end in one line and exit code 1."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.kafka", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a cluster and wait until it is ready")
    up.add_argument("--version", default=jars.DEFAULT_VERSION)
    up.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    up.add_argument("--port", type=int, default=FIRST_PORT, help="of the first node; the others follow")
    up.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one more broker setting")
    commands.add_parser("down", help="stop the cluster and remove its data")
    commands.add_parser("status", help="say what runs")
    fetch = commands.add_parser("jars", help="only fetch the jars")
    fetch.add_argument("--version", default=jars.DEFAULT_VERSION)
    arguments = parser.parse_args()
    try:
        return COMMANDS[arguments.command](arguments)
    except (jars.KafkaUnavailableError, RuntimeError, TimeoutError) as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 1


def up(arguments: argparse.Namespace) -> int:
    """Start; exit code 0 when a client can connect."""
    running = Cluster.load(FOLDER, say=say)
    if running is not None and any(broker.pid() for broker in running.brokers):
        say(f"Kafka {running.version} runs already on {running.bootstrap} (`make kafka-down` stops it)")
        return 0
    ports = [arguments.port + number for number in range(arguments.brokers)]
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise RuntimeError(f"somebody else listens on port {taken[0]} (use --port, or PORT= with make)")
    shutil.rmtree(FOLDER, ignore_errors=True)
    overrides = dict(setting.split("=", 1) for setting in arguments.set)
    cluster = Cluster(
        FOLDER,
        version=arguments.version,
        brokers=arguments.brokers,
        ports=ports,
        overrides=overrides,
        say=say,
    )
    cluster.save()
    cluster.start()
    say(f"logs: {', '.join(str(_short(broker.log)) for broker in cluster.brokers)}")
    say(f"integration tests against it: EPOCHGATE_TEST_BOOTSTRAP={cluster.bootstrap}")
    return 0


def down(_: argparse.Namespace) -> int:
    """Stop; exit code 0 also if nothing ran."""
    cluster = Cluster.load(FOLDER, say=say)
    if cluster is None:
        say("nothing runs")
        return 0
    say(f"stopping Kafka {cluster.version} on {cluster.bootstrap}")
    cluster.stop()
    cluster.remove()
    say("stopped")
    return 0


def status(_: argparse.Namespace) -> int:
    """Print one line per node; exit code 1 if nothing runs."""
    cluster = Cluster.load(FOLDER, say=say)
    if cluster is None:
        say("nothing runs")
        return 1
    for broker in cluster.brokers:
        pid = broker.pid()
        say(f"node {broker.node_id} on {broker.address}: {f'pid {pid}' if pid else 'stopped'}")
    return 0 if any(broker.pid() for broker in cluster.brokers) else 1


def fetch_jars(arguments: argparse.Namespace) -> int:
    """Fetch the jars without starting anything."""
    say(f"jars of Kafka {arguments.version}: {_short(jars.ensure_jars(arguments.version, say=say))}")
    return 0


def say(line: str) -> None:
    """Print progress at once."""
    print(f"kafka: {line}", flush=True)


def _short(path: Path) -> Path:
    return path.relative_to(jars.ROOT) if path.is_relative_to(jars.ROOT) else path


COMMANDS = {"up": up, "down": down, "status": status, "jars": fetch_jars}

if __name__ == "__main__":
    sys.exit(main())
