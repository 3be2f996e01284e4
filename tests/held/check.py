"""`python -m tests.held.check DIR ...`: judges a run by what broker and consumers said. Exit code 1 on a violation.

1. **The quota holds**: at every look at the broker, by tests/held/quota.py.
2. **No partition has two owners at once**, no record is lost, none is read twice without a reason, and nobody is fenced
   without one: by the consumers' own logs, with the rules of tests/jepsen/check.py.
3. **The journals say the same**: `epochgate verify` over those of both replicas finds no violation. What it could not
   prove is printed.
4. **It was held, and something happened**: members were translated all the time, the coordinator moved, and the move
   is at its last step at the end.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from support import ROOT

from tests.held import looks, quota
from tests.jepsen import check
from tests.jepsen.history import History

SHARE = Fraction(1, 2)
HELD = "step 2 of 2 (50%), settled"


def certificate(folder: Path, group: str) -> dict[str, Any]:
    """What `epochgate verify` says of the group."""
    command = [sys.executable, "-m", "proxy", "verify", "--journal", str(folder / "journal"), "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode not in {0, 3, 4}:
        raise RuntimeError(f"epochgate verify ended with {done.returncode}: {done.stderr}")
    (found,) = [one for one in json.loads(done.stdout)["certificates"] if one["group"] == group]
    return dict(found)


def judge(history: History, seen: Sequence[looks.Look], certified: dict[str, Any]) -> list[str]:
    """Everything that is wrong."""
    kept = quota.judge(seen, SHARE)
    violations = kept.violations + check.judge(history).violations
    if certified["verdict"] == "violated":
        violations.append(f"epochgate verify: {certified}")
    if history.about.get("move") != HELD:
        violations.append(f"the move at the end: {history.about.get('move')}, not: {HELD}")
    if kept.as_classic > len(seen) / 10:
        violations.append(f"at {kept.as_classic} of {len(seen)} looks nobody was translated")
    if not _moves(seen):
        violations.append("the group had one coordinator all the time")
    return violations


def _moves(seen: Sequence[looks.Look]) -> int:
    """How often another broker answered than before."""
    answered = [one.coordinator for one in seen if one.members is not None]
    return sum(before != now for before, now in pairwise(answered))


def report(history: History, seen: Sequence[looks.Look], certified: dict[str, Any]) -> Iterator[str]:
    """Format figures and verdict for people."""
    about, kept, verdict = history.about, quota.judge(seen, SHARE), check.judge(history)
    minutes = f"{about['seconds'] / 60:g} minutes, steps [{about['steps']}]"
    yield f"Kafka {about['kafka']}, seed {about['seed']}, {minutes}, {about['consumers'][0]}"
    for kind, number in sorted(Counter(fault.kind for fault in history.faults).items()):
        yield f"{number:8}  {kind}"
    yield f"{_moves(seen):8}  times the group had another coordinator"
    yield f"{len(history.logs):8}  consumer processes; {min(kept.sizes)} to {max(kept.sizes)} members at once"
    yield f"{len(history.produced):8}  records acknowledged to the producer"
    yield f"{kept.looks:8}  looks at the broker, {kept.unanswered} without an answer"
    yield f"{kept.at_quota:8}  with as many translated members as the step allows"
    yield f"{kept.below:8}  with fewer, until somebody has moved"
    yield f"{kept.above_since_some_left:8}  with more, since some had left"
    yield f"{kept.begun:8}  times somebody was translated anew"
    yield f"{kept.begun_by_an_earlier_quota:8}  of these by a slot of a quota that had become smaller meanwhile"
    yield f"{kept.taken_over:8}  translated members whose instance id went to a new process"
    for note, number in sorted(verdict.notes.items()):
        yield f"{number:8}  {note}"
    yield f"          epochgate verify: {json.dumps(certified)}"
    yield f"          processor time of the replicas: {about.get('proxy_cpu_s')} s"
    violations = judge(history, seen, certified)
    for violation in violations:
        yield f"VIOLATION {violation}"
    yield f"{'FAILED' if violations else 'PASSED'}: {len(violations)} violations"


def main(folders: Sequence[str]) -> int:
    """Judge each folder."""
    worst = 0
    for folder in map(Path, folders):
        history, seen = History.read(folder), looks.read(folder / "broker" / "looks.jsonl")
        certified = certificate(folder, history.about["group"])
        print("\n".join(report(history, seen, certified)))
        worst = max(worst, int(bool(judge(history, seen, certified))))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
