"""What a process of the proxy sets up for itself."""

import subprocess
import sys

GROWTH = """
import gc
import sys
from proxy.server.process import tune_gc

if sys.argv[1] == "seldom":
    tune_gc()
before = gc.get_stats()[2]["collections"]
held = [[number] for number in range(1_000_000)]
print(gc.get_stats()[2]["collections"] - before)
"""


def full_collections(how: str) -> int:
    """While a million objects are made and kept."""
    ran = subprocess.run([sys.executable, "-c", GROWTH, how], capture_output=True, text=True, check=True)
    return int(ran.stdout)


def test_a_process_that_grows_is_not_looked_through_time_and_again() -> None:
    assert full_collections("seldom") * 4 < full_collections("always")
