"""`epochgate demo --plain` from beginning to end, as a person starts it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.broker import Kafka
from support.share import skip_without_share_groups
from support.waiting import eventually

pytestmark = pytest.mark.kafka

SHORT = ("--plain", "--pause", "0", "--work", "0.1", "--rate", "50", "--partitions", "6")
TIMEOUT_S = 270
MOVED = r"│ move .*\n│\s+│ Epochgate │ consumer\s+│\s+0 │\s+0 of 3 │\s+0\.00 │\s+0\.00 │\s+0\.00 │\s+0 │"
"""The group is a consumer group, and its members have noticed nothing."""


def start(kafka, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "proxy", "demo", "--kafka", kafka.bootstrap, *(options or SHORT)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hears_ctrl_c,  # noqa: PLW1509  nothing else runs in this process
    )


def _hears_ctrl_c() -> None:
    """What a shell starts in the background has SIGINT ignored, and so has all that it starts in turn."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def topics_of_demos(kafka) -> set[str]:
    return {
        topic for topic in kafka.admin.list_topics(timeout=60).topics if topic.startswith("epochgate-demo-")
    }


def children(pid: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(words[1]) == pid and words[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def test_the_demo_passes_and_leaves_nothing_behind(own_kafka):
    """Preflight looks at the whole cluster, so no other test may have left anything in it."""
    cluster = own_kafka()
    kafka = Kafka(cluster.bootstrap, source="of its own", version=cluster.version)
    before = topics_of_demos(kafka)
    demo = start(kafka)
    output, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, output
    assert re.search(r"PASSED: both groups read all [1-9]\d* records", output), output
    assert "epochgate preflight: Nothing was found." in output
    assert re.search(r"epochgate verify: \S+ is proven: 0 times two owners at once", output), output
    assert re.search(MOVED, output), output
    assert "The move: 0 callbacks, 0 records read twice, longest time without an owner 0.00 s." in output
    assert len(re.findall(r"│ Epochgate │ consumer ", output)) == len(("move", "join", "kill", "deploy"))
    assert re.search(r"│ back .*\n│\s+│ Epochgate │ classic ", output), output
    assert not re.search(r"│ Classic\s+│ consumer ", output), output
    assert re.search(r"group.consumer.session.timeout.ms is \d+ s here and 45 s on a stock broker", output)
    eventually(lambda: topics_of_demos(kafka), lambda now: now <= before, what="the demo's topic is gone")


def test_the_story_of_a_share_group_passes_and_leaves_nothing_behind(kafka):
    skip_without_share_groups(kafka.version, preview=False)
    before = topics_of_demos(kafka)
    demo = start(kafka, "--story", "share", "--plain", "--pause", "0", "--work", "0.05", "--rate", "50")
    output, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, output
    assert re.search(r"PASSED: of [1-9]\d* records the group has processed", output), output
    eventually(lambda: topics_of_demos(kafka), lambda now: now <= before, what="the demo's topic is gone")
    groups = kafka.admin.list_consumer_groups().result(timeout=60).valid
    assert not [one.group_id for one in groups if re.fullmatch(r"epochgate-demo-.*-share", one.group_id)]


def test_ctrl_c_ends_everything_that_was_started(kafka):
    before = topics_of_demos(kafka)
    demo = start(kafka)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("== step 2"):
            break
    consumers = children(demo.pid)
    assert len(consumers) >= 6
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 130, output
    assert "all processes have been stopped" in output
    assert not [pid for pid in consumers if Path(f"/proc/{pid}").exists()]
    eventually(lambda: topics_of_demos(kafka), lambda now: now <= before, what="the demo's topic is gone")
