"""What production names of hosted groups: frozen words, in these places only. What it loads of them: nothing."""

import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

WORDS = re.compile(r"\b(?:hosted|hosting)\b|hosted_|Mode\.HOST\b|\bHOST = |mode: host|`host`:|\bhost: Host\b")

NAMED = {
    "proxy/cli/configuration.py": "refuses the mode without the key",
    "proxy/cli/run.py": "refuses it in a policy that is read again",
    "proxy/config/hosting.py": "refuses the mode without the key",
    "proxy/config/policy_explanation.py": "explains the mode",
    "proxy/config/schema.py": "the key",
    "proxy/metrics/registry.py": "the label value",
    "proxy/server/compose.py": "counts by the label value",
    "proxy/server/process.py": "makes the router",
    "proxy/session/group_calls.py": "hands calls over, as of all groups that are not relayed",
    "translation/engine/group_router.py": "the mode of a group that a router has",
    "translation/member_log/group_log.py": "the record",
    "translation/member_log/group_records.py": "the record",
    "translation/policy/policy.py": "the mode",
    "translation/translator.py": "says what makes the router",
}
"""Why each of these names the mode, the key, the kind of record or the label value."""


def test_production_names_hosted_groups_in_these_places_only():
    found = {
        file.relative_to(ROOT).as_posix()
        for room in ("translation", "proxy")
        for file in (ROOT / room).rglob("*.py")
        if WORDS.search(file.read_text(encoding="utf-8"))
    }
    assert found == set(NAMED)


@pytest.mark.parametrize("experimental", [True, False])
def test_only_a_proxy_with_experiments_loads_them(experimental: bool):
    program = f"""
import sys, trio
from proxy.server.process import make_translator
from tests.proxy.fakes.serving import config_for
from translation.policy.policy import Policy
async def main():
    make_translator(config_for({{}}, experimental={experimental}), Policy())
trio.run(main)
print(*(name for name in sys.modules if name.split(".")[0] == "hosting"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ("hosting.router" in done.stdout.split()) is experimental
    assert experimental or not done.stdout.split()
