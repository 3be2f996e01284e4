"""What a policy of many group names costs: to be read, to be put in force, to be asked, and in memory.

``python -m benchmarks.policy [--groups 20000]``. The policy is the one that ``epochgate policy from-readiness`` writes:
a folder of waves. Beside it stands the same with a rule for each group, as people write it.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pipeline.readiness.policy_set import Options, PlannedGroup, policy_set
from proxy.config.policy_source import load_policy_from
from translation.policy.policy import Policy
from translation.translator import Translator

T = TypeVar("T")
LOOKUPS = 100_000
PART = 5_000
"""Rules of one file: it has 1 MiB at most."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20_000)
    groups = parser.parse_args().groups
    names = [f"payments-service-{number:06}" for number in range(groups)]
    rows = [PlannedGroup(name, 1 + n.bit_length(), n, 4, n % 20 == 0) for n, name in enumerate(names)]
    waves = policy_set(rows, Options()).files
    rules = [f'  - {{group: "{name}", mode: translate}}\n' for name in names]
    parts = {
        f"{first:06}.yaml": f"rules:\n{''.join(rules[first : first + PART])}".encode()
        for first in range(0, groups, PART)
    }
    print(f"| {groups:,} groups | waves | a rule for each |\n| --- | --- | --- |")
    found = [_measured(files, names) for files in (waves, parts)]
    for what in found[0]:
        print(f"| {what} | {' | '.join(one[what] for one in found)} |")


def _measured(files: dict[str, bytes], names: list[str]) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        loaded, read_s = _timed(lambda: load_policy_from(Path(folder)))
        tracemalloc.start()
        kept = load_policy_from(Path(folder)).policy
        kept.rule_for(names[0])
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    translator = Translator(Policy())
    _, applied_s = _timed(lambda: translator.set_policy(0.0, loaded.policy))
    asked = [names[number % len(names)] for number in range(LOOKUPS)]
    _, lookup_s = _timed(lambda: [loaded.policy.rule_for(name) for name in asked])
    return {
        "files, bytes": f"{len(files)}, {sum(map(len, files.values())):,}",
        "read and checked": f"{read_s * 1000:.0f} ms",
        "put in force": f"{applied_s * 1000:.0f} ms",
        "one lookup": f"{lookup_s / LOOKUPS * 1e9:.0f} ns",
        "memory": f"{held / 2**20:.1f} MiB",
    }


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


if __name__ == "__main__":
    main()
