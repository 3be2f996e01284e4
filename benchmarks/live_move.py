"""Measures what the applications of live groups notice while the policy moves them: observe -> translate -> observe.

`python -m benchmarks.live_move` forms a group of each kind (of three members), all at once behind the same replicas,
under load; one change of the policy moves them all. Before it, groups of the same kinds work straight at Kafka, and one
member of each is restarted. An application that ends stays away, and is counted. The run is in build/bench-live-move/;
with `--record` it replaces that of the same Kafka, replicas, members and code in docs/evidence/live-move.json, from
which `python -m tools.recorded_tables` makes the table of docs/evidence/in-place.md.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support import ROOT, find_broker
from support.broker import Kafka
from support.entry import Proxy

from benchmarks.live_move_costs import Reading
from benchmarks.live_move_groups import RESTART, Group, Groups
from benchmarks.live_move_kinds import KINDS, Kind
from tools import live_move_table, recorded
from tools.kafka import jars

FOLDER = ROOT / "build" / "bench-live-move"
SESSION_MS = "30000"
"""Of native members, as of the clients."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured."""

    kinds: Mapping[str, Kind]
    rounds: int
    replicas: int
    members: int
    kafka: str
    together: int
    code: Path
    unknown: bool
    """Whether each move in is of clients whose JoinGroup the proxies have not seen."""

    @property
    def name(self) -> str:
        """Of its files."""
        suffix = ("-before" if self.is_before else "") + ("-unknown" if self.unknown else "")
        return f"{self.kafka}-{self.replicas}-{self.members}{suffix}"

    @property
    def is_before(self) -> bool:
        """Whether the proxies run other code than this."""
        return self.code != ROOT


def measure(kafka: Kafka, plan: Plan) -> list[dict[str, Any]]:
    """Move the groups of all kinds, some kinds at a time. What goes wrong in a group is in its result."""
    found = []
    for first in range(0, len(plan.kinds), plan.together):
        kinds = dict(list(plan.kinds.items())[first : first + plan.together])
        folder = FOLDER / plan.name / next(iter(kinds))
        shutil.rmtree(folder, ignore_errors=True)
        with Groups(kafka, kinds, plan.members, [], folder / "straight") as straight:
            straight.restart_one_of_each()
            restarted = straight.finish()
        with (
            _proxies(kafka, plan, folder) as proxies,
            Groups(kafka, kinds, plan.members, proxies, folder / "moved") as groups,
        ):
            for _ in range(plan.rounds):
                if plan.unknown:
                    groups.restart_proxies()
                groups.move("translate")
                groups.move("observe")
            moved = groups.finish()
        found += [_row(*moved[name], *restarted[name]) for name in kinds]
    return found


def _row(group: Group, moved: Reading, control: Group, restarted: Reading) -> dict[str, Any]:
    costs = {name: dataclasses.asdict(cost) for name, cost in moved.costs.items()}
    return {
        "kind": group.name,
        "applications": str(group.kind),
        "in_place": group.kind.in_place,
        "in": {"moves": group.done.count("translate"), **costs["translate"]},
        "back": {"moves": group.done.count("observe"), **costs["observe"]},
        "ended": moved.ended,
        "records": moved.records,
        "unread": moved.unread,
        "two_owners": moved.two_owners,
        "failed": group.failed,
        "restart": {
            **dataclasses.asdict(restarted.costs[RESTART]),
            "records": restarted.records,
            "failed": control.failed,
        },
    }


@contextlib.contextmanager
def _proxies(kafka: Kafka, plan: Plan, folder: Path) -> Iterator[Sequence[Proxy]]:
    """So many replicas of the code, which share a member log as the chart has it if there are several."""
    options: dict[str, Any] = {}
    if plan.replicas > 1:
        log = {
            "kafka": {"bootstrap.servers": kafka.bootstrap},
            "topic": f"__epochgate_members_{time.time_ns()}",
            "partitions": 16,
            "replication": 1,
            "expires": True,
        }
        options = {"fleet": log, "sole_process": False}
    with contextlib.ExitStack() as stack:
        proxies = [
            Proxy(kafka.bootstrap, folder / f"proxy-{number}", **options) for number in range(plan.replicas)
        ]
        for proxy in proxies:
            if plan.is_before:
                _leave_out_new_keys(proxy)
            stack.callback(proxy.stop)
            proxy.start()
        yield proxies


def _leave_out_new_keys(proxy: Proxy) -> None:
    """The code before the in-place move refuses a key that it does not know."""
    path = proxy.folder / "epochgate.yaml"
    config = json.loads(path.read_text())
    del config["initial_rebalance_delay_ms"]
    path.write_text(json.dumps(config))


def main() -> int:
    """Start a broker, measure, and write the run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.live_move",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=10, help="there and back, so many times")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--members", type=int, default=live_move_table.USUAL_MEMBERS, help="in each group")
    parser.add_argument("--kafka", default=jars.DEFAULT_VERSION, help="the broker's version")
    parser.add_argument("--together", type=int, default=len(KINDS), help="so many kinds at once (memory)")
    parser.add_argument(
        "--code", type=Path, default=ROOT, help="a checkout whose proxy runs instead of this one"
    )
    parser.add_argument(
        "--unknown",
        action="store_true",
        help="the proxies are restarted before each move in, which then costs a rebalance",
    )
    parser.add_argument("--only", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--record", action="store_true", help="into docs/evidence/live-move.json")
    options = parser.parse_args()
    names = options.only.split(",")
    if not set(names) <= KINDS.keys():
        parser.error(f"--only: some of {','.join(KINDS)}")
    plan = Plan(
        {name: KINDS[name] for name in names},
        options.rounds,
        options.replicas,
        options.members,
        options.kafka,
        options.together,
        options.code.resolve(),
        options.unknown,
    )
    if plan.is_before:
        os.environ["PYTHONPATH"] = str(plan.code)  # before this checkout, for the proxies
    began, code = time.monotonic(), recorded.of_code(plan.code)
    overrides = {"group.consumer.session.timeout.ms": SESSION_MS, "broker.session.timeout.ms": "60000"}
    with find_broker.own_cluster(
        f"bench-live-move-{plan.name}", version=plan.kafka, overrides=overrides
    ) as cluster:
        groups = measure(Kafka(cluster.bootstrap, source="maven", version=cluster.version), plan)
    run = {
        "kafka": plan.kafka,
        "replicas": plan.replicas,
        "members": plan.members,
        "before": plan.is_before,
        "unknown": plan.unknown,
        **code,
        "rounds": plan.rounds,
        "seconds": round(time.monotonic() - began),
        "groups": groups,
    }
    (FOLDER / f"{plan.name}.json").write_text(json.dumps(run, indent=1) + "\n")
    if options.record:
        live_move_table.RUNS.keep(run)
    print(live_move_table.table(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
