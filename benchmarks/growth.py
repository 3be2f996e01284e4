"""Measures processor time of the proxy as members and partitions grow; other load hardly affects it.

The exponent says how a cost grows: 0 not at all, 1 linearly. It is fitted to the logarithms.
"""

import math
import statistics
from typing import Any

from benchmarks.members import held

MEMBERS = (25, 50, 100, 200)
PARTITIONS = (20, 80, 320, 1280)
FEW = 20
WINDOW_S = 10.0
LINEAR = 1.15
"""An exponent up to this is called linear: it is a measurement."""


def measure(window_s: float = WINDOW_S) -> dict[str, Any]:
    by_members, by_partitions = [], []
    for count in MEMBERS:
        by_members.append(held(count, group_size=count, partitions=count, window_s=window_s))
        print(f"  {by_members[-1]}", flush=True)
    for partitions in PARTITIONS:
        by_partitions.append(held(FEW, group_size=FEW, partitions=partitions, window_s=window_s))
        print(f"  {by_partitions[-1]}", flush=True)
    exponents = {
        "heartbeat by members of the group": _exponent(by_members, "members", "proxy_cpu_us_per_heartbeat"),
        "joining of one by members of the group": _exponent(
            by_members, "members", "joining_cpu_ms_per_member"
        ),
        "heartbeat by partitions": _exponent(by_partitions, "partitions", "proxy_cpu_us_per_heartbeat"),
        "joining of one by partitions": _exponent(by_partitions, "partitions", "joining_cpu_ms_per_member"),
    }
    return {
        "by_members": by_members,
        "by_partitions": by_partitions,
        "exponents": exponents,
        "met": all(exponent <= LINEAR for exponent in exponents.values()),
    }


def _exponent(rows: list[dict[str, Any]], by: str, what: str) -> float:
    slope, _ = statistics.linear_regression(
        [math.log(row[by]) for row in rows], [math.log(max(row[what], 1e-9)) for row in rows]
    )
    return round(slope, 2)
