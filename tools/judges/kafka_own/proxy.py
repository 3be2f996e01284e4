"""A proxy for one test of Kafka's: ``python -m tools.judges.kafka_own.proxy FOLDER BOOTSTRAP``.

Prints the address of its bootstrap listener, and runs until its input ends.
"""

import sys
from pathlib import Path

from benchmarks.lib.test_bed import Gateway
from tools.judges.running import POLICY

# As the tests set their brokers (kafka.api.AbstractConsumerTest).
INITIAL_REBALANCE_DELAY_MS = 10
LIMITS = "limits: {session_timeout_min_ms: 100}\n"


def main(folder: str, bootstrap: str) -> None:
    """Run it in front of these brokers."""
    proxy = Gateway(
        bootstrap,
        Path(folder),
        initial_rebalance_delay_ms=INITIAL_REBALANCE_DELAY_MS,
        policy=POLICY,
        more=LIMITS,
    )
    try:
        proxy.start()
        print(proxy.bootstrap, flush=True)
        sys.stdin.read()
    finally:
        proxy.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
