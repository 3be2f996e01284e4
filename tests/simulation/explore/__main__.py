"""Explores scopes completely: ``python -m tests.simulation.explore``; ``--fleet`` those of replicas."""

import argparse
from multiprocessing import get_context
from typing import Any

import msgspec

from tests.simulation.explore import fleet, three_members
from tests.simulation.explore.search import Exploration, explore


def _explore_one(scope: Any) -> Exploration:
    def progress(so_far: Exploration) -> None:
        print(f"{so_far.scope}: {so_far.states:,} states so far", flush=True)

    return explore(scope, progress=progress)


def _is_meant(options: argparse.Namespace, scope: Any) -> bool:
    if options.scope:
        return bool(options.scope == scope.name)
    return isinstance(scope, fleet.TwoReplicas) is options.fleet


def _with(options: argparse.Namespace, scope: Any) -> Any:
    changes = {"faults": options.faults}
    if options.until_ms is not None:
        changes["until_ms"] = options.until_ms
    if isinstance(scope, fleet.TwoReplicas):
        changes["moves"] = options.moves
    return msgspec.structs.replace(scope, **changes)


def main() -> int:
    """Explore; the exit code is 0 if no invariant was broken."""
    scopes = (*three_members.SCOPES, *fleet.SCOPES)
    parser = argparse.ArgumentParser(prog="tests.simulation.explore", description=__doc__)
    parser.add_argument("--faults", type=int, default=1, help="how many faults there may be in a history")
    parser.add_argument("--until-ms", type=int, help="the horizon, in virtual milliseconds")
    parser.add_argument(
        "--moves", type=int, default=1, help="how often the client of a fleet changes the replica"
    )
    parser.add_argument("--scope", choices=[scope.name for scope in scopes], help="one of them")
    parser.add_argument("--fleet", action="store_true", help="one member and two replicas with a member log")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    chosen = [_with(options, scope) for scope in scopes if _is_meant(options, scope)]
    failed = False
    with get_context("fork").Pool(options.jobs) as pool:
        for scope, result in zip(chosen, pool.imap(_explore_one, chosen), strict=True):
            ending = result.failure or ("complete" if result.complete else "not complete")
            print(
                f"{result.scope}, {options.faults} faults, to {scope.until_ms} ms: {result.states:,} states with a "
                f"choice, {result.steps:,} steps, {result.settled:,} at the horizon: {ending}",
                flush=True,
            )
            if result.failure is not None:
                print(result.story)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
