"""`epochgate demo --plain` from beginning to end, without Kafka; tests/integration/test_demo.py does it with Kafka."""

import re
import subprocess
import sys

SHORT = ("--plain", "--pause", "0", "--work", "0.1", "--rate", "50", "--partitions", "6")
TIMEOUT_S = 270
MOVED = r"│ move .*\n│\s+│ Epochgate │ consumer\s+│\s+0 │\s+0 of 3 │\s+0\.00 │\s+0\.00 │\s+0\.00 │\s+0 │"
"""The group is a consumer group, and its members have noticed nothing."""


def test_the_demo_passes():
    command = [sys.executable, "-m", "proxy", "demo", "--embedded", *SHORT]
    demo = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert re.search(r"PASSED: both groups read all [1-9]\d* records", demo.stdout), demo.stdout
    assert re.search(r"epochgate verify: \S+ is proven: 0 times two owners at once", demo.stdout), demo.stdout
    assert re.search(MOVED, demo.stdout), demo.stdout
    assert re.search(r"│ back .*\n│\s+│ Epochgate │ classic ", demo.stdout), demo.stdout
    assert demo.stderr == ""


def test_the_story_of_a_share_group_passes():
    short = ("--plain", "--pause", "0", "--work", "0.05", "--rate", "50")
    command = [sys.executable, "-m", "proxy", "demo", "--story", "share", "--embedded", *short]
    demo = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    said = " ".join(demo.stdout.split())
    passed = re.search(
        r"PASSED: of ([1-9]\d*) records the group has processed (\d+), each exactly once", said
    )
    assert passed, demo.stdout
    assert int(passed[2]) == int(passed[1]) - 1
    assert re.search(r"given up after 3 deliveries", said), demo.stdout
    assert demo.stderr == ""
