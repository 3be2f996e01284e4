"""`python -m tests.truth --seed 1`: 30 states with 1, 2 and 3 replicas, and what was wrong in them."""

import argparse
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support import find_broker
from support.broker import Kafka

from tests.truth.facts import ROOT
from tests.truth.kafka_says import KafkaTools
from tests.truth.planted import PLANTED
from tests.truth.scene import BROKER_SETTINGS, Scene, emptied
from tools import recorded, truth_table

Say = Callable[[str], None]


def run(folder: Path, seed: int, states: int, replicas: Sequence[int], say: Say = print) -> dict[str, Any]:
    """Judge so many states, shared out over the numbers of replicas. Return what was seen."""
    prometheus = shutil.which("prometheus")
    assert prometheus is not None, "prometheus is not installed"
    emptied(folder)
    seen: list[dict[str, Any]] = []
    found: dict[str, dict[str, int]] = {}
    with find_broker.own_cluster(f"truth-{seed}", overrides=BROKER_SETTINGS) as cluster:
        kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
        with KafkaTools(cluster.bootstrap, cluster.version, folder / "tools.log") as tools:
            for turn, number in enumerate(replicas):
                scene = Scene(kafka, tools, folder / f"replicas-{number}", number, prometheus, say)
                share = states // len(replicas) + (turn < states % len(replicas))
                try:
                    for state in scene.run(seed * 10 + number, share):
                        seen.append(state)
                        say(f"    {state['facts']} facts, {len(state['wrong'])} wrong")
                except KeyboardInterrupt:
                    say("interrupted: the states so far count")
                    break
                finally:
                    for what, first in scene.found.items():
                        found.setdefault(what, {"replicas": number, "state": first})
    return {
        "seed": seed,
        "kafka": cluster.version,
        "load": round(os.getloadavg()[1], 1),
        "states": seen,
        "planted": {one.what: found.get(one.what) for one in PLANTED},
    }


def main() -> int:
    """Run, and return 1 if a fact was wrong or a planted rule was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--seed", type=int, help="the run draws one if it is not given")
    parser.add_argument("--states", type=int, default=30)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--record", action="store_true", help="into docs/evidence/truth.json")
    parser.add_argument("--folder", type=Path, help="for the logs; build/truth/SEED if not given")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = secrets.randbelow(100_000) if options.seed is None else options.seed
    drawn = "" if options.seed is not None else ", drawn by this run"
    print(f"seed {seed}{drawn}")
    seen = run(options.folder or ROOT / "build" / "truth" / str(seed), seed, options.states, options.replicas)
    if options.record:
        command = f"python -m tests.truth --record --seed {seed} --states {options.states}"
        about = {"command": command, "drawn": options.seed is None}
        truth_table.RUNS.keep({**about, **recorded.of_code(ROOT), **seen})
    wrong = [one for one in seen["states"] if one["wrong"]]
    missed = [what for what, where in seen["planted"].items() if where is None]
    print(f"{len(seen['states']) - len(wrong)} of {len(seen['states'])} states are the truth")
    print(f"{len(PLANTED) - len(missed)} of {len(PLANTED)} planted rules are found", *missed, sep="\n    ")
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
