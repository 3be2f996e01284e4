"""Measures how many members one worker can serve: translated classic members that heartbeat every 3 s.

Proxy, embedded coordinator and members (:mod:`benchmarks.lib.crowd`) are three processes.
"""

import os
import statistics
import time
from typing import Any

from benchmarks.lib.crowd import Crowd
from benchmarks.lib.embedded import embedded, make_topic
from benchmarks.lib.test_bed import cpu_s, gateway, own_cpu_s, resident_bytes, waited_s
from proxy.runtime.fd_limits import raise_file_limit

GROUP_SIZE = 10
WINDOW_S = 20.0
TARGET_P99_MS = 100.0
TARGET_BYTES = 60 * 1024
SIZES = (1000, 5000, 10_000)


def held(
    count: int,
    *,
    group_size: int = GROUP_SIZE,
    partitions: int = GROUP_SIZE,
    window_s: float = WINDOW_S,
) -> dict[str, Any]:
    """Serve so many members, and measure."""
    raise_file_limit()
    name = f"members-{count}"
    with embedded(partitions) as (bootstrap, broker_pid), gateway(bootstrap, name) as proxy:
        pid = proxy.process.pid
        host, _, port = proxy.bootstrap.rpartition(":")
        make_topic(proxy.bootstrap, "members")
        empty, at_start = resident_bytes(pid), cpu_s(pid)
        crowd = Crowd([(host, int(port))], "members", count, group_size)
        started = time.perf_counter()
        crowd.join_all()
        joined_s = time.perf_counter() - started
        joining_cpu = cpu_s(pid) - at_start
        crowd.latencies.clear()
        forming, crowd.rejoins = crowd.rejoins, 0
        processes = {"proxy": pid, "coordinator": broker_pid, "members": os.getpid()}
        used = {name: (own_cpu_s(one), waited_s(one)) for name, one in processes.items()}
        began = time.perf_counter()
        crowd.run(window_s)
        took = time.perf_counter() - began
        shares = {
            name: {
                "cpu": round((own_cpu_s(one) - used[name][0]) / took, 3),
                "waiting_for_a_core": round((waited_s(one) - used[name][1]) / took, 3),
            }
            for name, one in processes.items()
        }
        per_member = (resident_bytes(pid) - empty) / count
        cuts = statistics.quantiles(crowd.latencies, n=100)
        crowd.close()
        return {
            "members": count,
            "group_size": group_size,
            "partitions": partitions,
            "connections": crowd.connection_count,
            "joined_s": round(joined_s, 1),
            "joining_cpu_ms_per_member": round(joining_cpu / count * 1000, 2),
            "heartbeats_per_s": round(len(crowd.latencies) / took),
            "shares": shares,
            "proxy_cpu_us_per_heartbeat": round(shares["proxy"]["cpu"] * took / len(crowd.latencies) * 1e6),
            "load_average": os.getloadavg()[0],
            "bytes_per_member": round(per_member),
            "p50_ms": round(cuts[49] * 1000, 2),
            "p99_ms": round(cuts[98] * 1000, 2),
            "rejoins_forming": forming,
            "rejoins": crowd.rejoins,
            "met": cuts[98] * 1000 < TARGET_P99_MS and per_member <= TARGET_BYTES,
        }


def measure(sizes: tuple[int, ...] = SIZES, window_s: float = WINDOW_S) -> list[dict[str, Any]]:
    results = []
    for count in sizes:
        results.append(held(count, window_s=window_s))
        print(f"  {results[-1]}", flush=True)
    return results
