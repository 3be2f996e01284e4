"""`python -m tests.held.check DIR ...`: judges a run by what broker and consumers said. Exit code 1 on a violation.

1. **The quota holds**: at every look at the broker, by tests/held/quota.py.
2. **No partition has two owners at once**, no record is lost, none is read twice without a reason, and nobody is fenced
   without one: by the consumers' own logs, with the rules of tests/jepsen/check.py.
   A client that is told to move loses its membership, which the journals name, and may read again what it had not
   committed.
3. **The journals say the same**: `epochgate verify` over those of both replicas finds no violation, but where the first
   owner's process had ended by then: the journal may say so later than the broker, which gives its partitions away
   (docs/evidence/held.md). Those are counted. What could not be proven is printed.
4. **It was held, and something happened**: members were translated all the time, the coordinator moved, and the move
   is at its last step at the end.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from support import ROOT

from tests.held import looks, quota
from tests.jepsen import check
from tests.jepsen.history import Fault, History

SHARE = Fraction(1, 2)
ENDED = frozenset({"killed", "closed", "died", "failed"})
HELD = "step 2 of 2 (50%), settled"


def certificate(folder: Path, group: str) -> dict[str, Any]:
    """What `epochgate verify` says of the group."""
    command = [sys.executable, "-m", "proxy", "verify", "--journal", str(folder / "journal"), "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode not in {0, 3, 4}:
        raise RuntimeError(f"epochgate verify ended with {done.returncode}: {done.stderr}")
    (found,) = [one for one in json.loads(done.stdout)["certificates"] if one["group"] == group]
    return dict(found)


def journal(folder: Path) -> list[dict[str, Any]]:
    """All events of both replicas."""
    files = sorted((folder / "journal").glob("*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def with_moves(history: History, events: Sequence[dict[str, Any]]) -> History:
    """The history, with each client that was told to move, which is a disturbance of that client."""
    ahead_ns = next(log[0].time - log[0].mono for log in history.logs.values() if log)
    told = [
        Fault("told to move", one["client_id"], mono, mono, one["client_id"])
        for one in events
        if one["kind"] == "policy_changed"
        for mono in [one["time_us"] * 1000 - ahead_ns]
    ]
    return replace(history, faults=[*history.faults, *told])


def accusations(
    history: History, events: Sequence[dict[str, Any]], certified: dict[str, Any]
) -> tuple[list[str], int]:
    """The violations that `epochgate verify` found, and how many more there are whose first owner was dead by then."""
    clients = {
        one["member"]: one["client_id"] for one in events if one.get("member") and one.get("client_id")
    }
    alive, dead = [], 0
    for one in certified["owners"]["violations"]:
        log = history.logs.get(clients.get(one["first_member"], ""), [])
        if any(event.kind in ENDED and event.time <= one["from_us"] * 1000 for event in log):
            dead += 1
        else:
            alive.append(f"epochgate verify: {one}")
    if certified["verdict"] == "violated" and not alive and not dead:
        alive.append(f"epochgate verify: {certified}")
    return alive, dead


def judge(history: History, seen: Sequence[looks.Look], accused: Sequence[str]) -> list[str]:
    """Everything that is wrong."""
    kept = quota.judge(seen, SHARE)
    violations = [*kept.violations, *check.judge(history).violations, *accused]
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


def report(
    history: History, seen: Sequence[looks.Look], certified: dict[str, Any], accused: Sequence[str], dead: int
) -> Iterator[str]:
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
    yield f"{kept.above_by_an_earlier_quota:8}  with more, by a slot of a quota that had become smaller meanwhile"
    yield f"{kept.begun:8}  times somebody was translated anew"
    yield f"{kept.begun_by_an_earlier_quota:8}  of these by a slot of a quota that had become smaller meanwhile"
    yield f"{kept.taken_over:8}  translated members whose instance id went to a new process"
    for note, number in sorted(verdict.notes.items()):
        yield f"{number:8}  {note}"
    yield f"          epochgate verify: {certified['verdict']}: {'; '.join(certified['why'])}"
    yield f"          processor time of the replicas: {about.get('proxy_cpu_s')} s"
    yield f"{dead:8}  violations found by epochgate verify whose first owner was dead by then"
    violations = judge(history, seen, accused)
    for violation in violations:
        yield f"VIOLATION {violation}"
    yield f"{'FAILED' if violations else 'PASSED'}: {len(violations)} violations"


def judged(folder: Path) -> tuple[list[str], str]:
    """The violations of a run, and its report."""
    events = journal(folder)
    history = with_moves(History.read(folder), events)
    seen = looks.read(folder / "broker" / "looks.jsonl")
    certified = certificate(folder, history.about["group"])
    accused, dead = accusations(history, events, certified)
    return judge(history, seen, accused), "\n".join(report(history, seen, certified, accused, dead))


def main(folders: Sequence[str]) -> int:
    """Judge each folder."""
    worst = 0
    for folder in map(Path, folders):
        violations, said = judged(folder)
        print(said)
        worst = max(worst, int(bool(violations)))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
