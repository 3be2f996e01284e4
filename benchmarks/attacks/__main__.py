"""Makes every attack on two replicas, and says what became of processes, clients and readiness.

    python -m benchmarks.attacks [--code FOLDER] [--as before] [--members 20000] [--only TEXT] [--record]

A Kafka with ACLs and Kafka's own settings for groups; for each attack two replicas with the chart's settings (member
log, journal, ``expires``) on a topic of their own, two librdkafka consumers through them and two straight at Kafka, and
a member that calls ten times a second. A replica that ends is started again at once. ``--code`` names the checkout
whose proxy runs; the attacks are those of this one. Each outcome is printed as it ends, and with ``--record`` put into
docs/evidence/attacks.json, from which ``python -m tools.recorded_tables`` writes the page.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support import ROOT

from benchmarks.attacks.catalog import Attack, attacks
from benchmarks.attacks.scene import HEALS_S, Scene, Watch
from benchmarks.attacks.secured_log import LISTENER, WITH_ACLS
from benchmarks.lib.test_bed import BUILD, kafka
from tools import attacks_table, recorded
from tools.kafka.cluster import Cluster
from tools.kafka.settings import GROUP_DEFAULTS

FOLDER = BUILD / "bench" / "attacks"


@dataclass
class Outcome:
    """What an attack came to."""

    of: str
    attack: str
    ends: list[str] = field(default_factory=list)
    """Of processes that serve, with their exit codes."""
    rejoins: int = 0
    """Assignments that consumers through the replicas got."""
    rejoins_straight: int = 0
    not_ready_s: float = 0.0
    healed_s: float | None = None
    """From when everything was mended that a person would mend; None: not within 45 s."""
    timed: dict[str, Any] = field(default_factory=dict)
    """What the timed member saw: its longest wait, rejoins, calls without an answer, answers."""
    seen: dict[str, Any] = field(default_factory=dict)
    failed: str = ""
    """Why it could not be made."""


def make(attack: Attack, cluster: Cluster, code: Path, number: int) -> Outcome:
    """Make one attack on a scene of its own."""
    folder = FOLDER / f"{code.name}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outcome = Outcome(attack.of, attack.name)
    try:
        with attack.options(folder) as options:
            scene = Scene(cluster, folder, code, options)
            try:
                with scene.running():
                    _watch(attack, scene, outcome)
            finally:
                outcome.ends[:0] = scene.ended
    except (AssertionError, OSError, RuntimeError) as error:
        outcome.failed = str(error).replace(f"{folder}/", "")[:400]  # no path of the machine is recorded
    return outcome


def _watch(attack: Attack, scene: Scene, outcome: Outcome) -> None:
    before, watch = scene.rejoins(), Watch(scene.replicas)
    scene.timed.start()
    try:
        outcome.seen = attack.run(scene)
        mended = time.monotonic()
        while not scene.is_healed() and time.monotonic() < mended + HEALS_S:
            time.sleep(0.2)
        if scene.is_healed():
            outcome.healed_s = round(time.monotonic() - mended, 1)
    finally:
        scene.timed.end()
        watch.end()
    after = scene.rejoins()
    outcome.ends, outcome.not_ready_s = watch.ends, round(watch.not_ready_s, 1)
    outcome.rejoins = after["through"] - before["through"]
    outcome.rejoins_straight = after["straight"] - before["straight"]
    timed = scene.timed
    outcome.timed = {
        "longest wait, ms": round(timed.longest_s * 1000),
        "refused for, s": round(timed.refused_for_s, 1),
        "rejoins": timed.rejoins,
        "not answered": timed.unanswered,
        "answers": dict(timed.answers),
    }


def main() -> int:
    """Make all attacks."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attacks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--code", type=Path, default=ROOT, help="the checkout whose proxy is attacked")
    parser.add_argument(
        "--as", dest="of", choices=(attacks_table.BEFORE, attacks_table.AFTER), default="after"
    )
    parser.add_argument("--members", type=int, default=20_000, help="how many are forged")
    parser.add_argument("--only", default="", metavar="TEXT,TEXT", help="attacks whose name contains one")
    parser.add_argument("--record", action="store_true", help="into docs/evidence/attacks.json")
    options = parser.parse_args()
    code = options.code.resolve()
    run = {
        "code": options.of,
        **recorded.of_code(code),
        "members": options.members,
    }
    overrides = {name.replace(".", "_"): value for name, value in GROUP_DEFAULTS.items()}
    with kafka(LISTENER, **WITH_ACLS, **overrides) as cluster:
        for number, attack in enumerate(attacks(options.members, cluster.bootstrap)):
            if not any(text in attack.name for text in options.only.split(",")):
                continue
            outcome = {
                **run,
                "kafka": cluster.version,
                "number": number,
                **asdict(make(attack, cluster, code, number)),
            }
            print(json.dumps(outcome), flush=True)
            if options.record:
                attacks_table.OUTCOMES.keep(outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
