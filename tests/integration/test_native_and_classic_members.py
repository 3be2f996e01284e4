"""Native members (`group.protocol=consumer`) in a group with translated and with classic ones.

Each script runs straight at the broker too, where there is such a thing, and what it asserts holds for both.
"""

from pathlib import Path

import pytest
from support.entry import Entry, running_proxy
from support.native_cases import (
    BROKER_SESSION_S,
    NATIVE,
    SLACK_S,
    both_ways,
    each_native,
    each_native_through_the_proxy,
)
from support.native_group import CLASSIC, STRAIGHT, NativeGroup

pytestmark = pytest.mark.kafka

MODE = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}}}
"""


@each_native()
def test_beside_translated_and_classic_members(native, native_group):
    """The classic ones come through the entry, and one straight to the broker, as in a rollout."""
    stays_on = native_group.join(native)
    native_group.work()
    through = native_group.join(CLASSIC[0])
    native_group.work()
    native_group.join(STRAIGHT)
    native_group.work()
    also_through = native_group.join(CLASSIC[1])
    native_group.work()
    victim = native_group.join(native)
    native_group.work()
    assert native_group.kill(victim) < BROKER_SESSION_S + SLACK_S
    native_group.work()
    native_group.kill(through)
    native_group.work()
    native_group.leave(also_through)
    native_group.work()
    assert stays_on.commit().kind == "committed"
    native_group.judge()


@both_ways
def test_all_libraries_in_one_group(native_group):
    """Each native one, and a translated one, come, and go in another order."""
    members = [native_group.join(kind) for kind in (*NATIVE, *CLASSIC)]
    native_group.work(2)
    native_group.kill(members[1])
    native_group.work()
    native_group.leave(members[0])
    native_group.work()
    native_group.kill(members[3])
    native_group.work()
    native_group.join(NATIVE[0])
    native_group.work()
    native_group.judge()


@each_native_through_the_proxy
def test_a_live_switch_passes_native_members_by(native, kafka, consumers, folder: Path):
    """Classic members are moved beside them and back; of what they see, straight at Kafka there is no such thing."""
    with running_proxy(kafka.bootstrap, folder / "proxy", policy=MODE.format(mode="observe")) as proxy:
        group = NativeGroup(kafka, Entry("observe", proxy.bootstrap), consumers)
        stays_on = group.join(native)
        for kind in (*CLASSIC, STRAIGHT):
            group.join(kind)
        group.work(2)
        group.wait_until_moved("observe")
        for mode in ("translate", "observe", "translate"):
            group.wait_for_commits()
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))
            group.wait_until_moved(mode)
            group.work(2)
        assert stays_on.commit().kind == "committed"
        group.judge()
