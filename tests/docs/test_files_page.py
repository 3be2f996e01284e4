"""The index of files is complete, and leads from a key, a metric or an error code to the file that decides."""

import re

import pytest

from tools import file_index
from tools.module_map import ROOT

PAGE = file_index.page()
ROWS = dict(re.findall(r"^\| `([^`]+)` \| (`.+`) \|$", PAGE, re.MULTILINE))


def test_each_file_is_there_once():
    listed = [
        f"{folder}/{name}"
        for folder, lines in re.findall(r"^## `([\w/]+)/`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"^- `(\w+\.py)`: \S", lines, re.MULTILINE)
    ]
    there = [
        file.relative_to(ROOT).as_posix()
        for room in ("proxy", "translation", "protocol_codecs", "coordinator", "pipeline/rules")
        for file in (ROOT / room).rglob("*.py")
        if file.name != "__init__.py"
    ]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize(
    ("word", "file"),
    [
        ("limits.idle_timeout_s", "proxy/connection/connection_manager.py"),  # its sentence names the key
        ("limits.session_timeout_min_ms", "translation/routing/join_routing.py"),  # handed on by two others
        ("visibility.page_groups", "proxy/admin/api.py"),  # no sentence names it: the file that reads it
        ("control.socket_mode", "proxy/config/control.py"),  # only the configuration reads it
        ("rules[].hold_s", "translation/rollout/next_step.py"),
        ("epochgate_journal_events_lost_total", "proxy/journal/journal.py"),
        ("INVALID_SESSION_TIMEOUT", "translation/routing/join_routing.py"),
    ],
)
def test_a_word_leads_to_the_file_that_decides(word: str, file: str):
    assert ROWS[word] == f"`{file}`"
