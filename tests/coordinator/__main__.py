"""``python -m tests.coordinator --seeds 0-199``: random scenarios on a real Kafka and on the embedded coordinator."""

import argparse
import os
import sys
import time

from tests.coordinator.comparison import compare
from tests.coordinator.conftest import own_cluster
from tests.coordinator.random_scenarios import RandomGroup
from tests.coordinator.random_share import RandomShareGroup
from tools.kafka import jars

PROGRESS_EVERY = 10


def main() -> int:
    """Play the seeds; the exit code says whether all agree."""
    parser = argparse.ArgumentParser(prog="python -m tests.coordinator", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="one seed, or the first and the last: 0-199")
    parser.add_argument("--bootstrap", help="a Kafka that runs already; otherwise one is started")
    parser.add_argument("--share", action="store_true", help="share groups instead of the others")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if options.bootstrap:
        return play(seeds, options.bootstrap, share=options.share)
    cluster = own_cluster()
    try:
        cluster.save(owner_pid=os.getpid())
        cluster.start()
        return play(seeds, cluster.bootstrap, share=options.share)
    except jars.KafkaUnavailableError as reason:
        print(f"no Kafka: {reason}", file=sys.stderr)
        return 1
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


def play(seeds: range, bootstrap: str, *, share: bool) -> int:
    """Play them one after the other; what differs is printed."""
    began = time.monotonic()
    failed = steps = records = 0
    for done, seed in enumerate(seeds, start=1):
        try:
            player = RandomShareGroup.player if share else RandomGroup.player
            theirs = compare(player(seed), f"random-{seed}", bootstrap)
            steps += len(theirs.transcript)
            records += len(theirs.log)
        except AssertionError as difference:
            failed += 1
            print(f"seed {seed}: {difference}\n", flush=True)
        if done % PROGRESS_EVERY == 0:
            print(
                f"{done} of {len(seeds)} seeds, {failed} differ, {time.monotonic() - began:.0f} s", flush=True
            )
    print(f"{len(seeds)} seeds, {failed} differ; {steps} steps and {records} records agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
