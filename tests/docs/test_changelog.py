"""CHANGELOG.md has the form of Keep a Changelog 1.1.0."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASES = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def test_each_release_has_its_kinds_of_change_once_and_in_order():
    for release in RELEASES:
        kinds = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert kinds, release[:40]
        assert kinds == [kind for kind in KINDS if kind in kinds]


def test_unreleased_comes_first_then_versions_with_their_dates():
    heads = [release.partition("\n")[0] for release in RELEASES]
    assert heads[0] == "[Unreleased]"
    assert [
        head for head in heads[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head)
    ] == []


def test_each_release_has_a_link():
    for release in RELEASES:
        name = re.match(r"\[(.+?)\]", release)[1]
        assert re.search(rf"^\[{re.escape(name)}\]: https://", TEXT, re.MULTILINE), name


def test_no_release_is_newer_than_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    newest = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", TEXT, re.MULTILINE)[:1]
    assert newest in ([], [version])
