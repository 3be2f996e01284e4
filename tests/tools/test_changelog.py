"""Fragments of changelog.d/ become entries of the changelog."""

import pytest

from tools import changelog

BEFORE = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One.\n\n### Fixed\n\n- Two.\n\n[Unreleased]: https://x\n"


def test_an_entry_is_the_last_of_its_kind():
    after = changelog.merged(BEFORE, "Added", "Three,\nof two lines.\n")
    assert after == BEFORE.replace("- One.\n", "- One.\n- Three, of two lines.\n")


def test_a_kind_that_is_not_there_is_made_in_order():
    after = changelog.merged(BEFORE, "Changed", "Three.")
    assert after == BEFORE.replace("### Fixed", "### Changed\n\n- Three.\n\n### Fixed")


def test_a_released_version_stays_as_it_is():
    released = BEFORE.replace(
        "[Unreleased]: ", "## [0.1.0] - 2026-01-01\n\n### Added\n\n- Old.\n\n[Unreleased]: "
    )
    after = changelog.merged(released, "Added", "Three.")
    assert after == released.replace("- One.\n", "- One.\n- Three.\n")


def test_all_fragments_move(tmp_path, monkeypatch):
    monkeypatch.setattr(changelog, "ROOT", tmp_path)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("how")
    (tmp_path / "changelog.d" / "drain.fixed.md").write_text("Three.\n")
    (tmp_path / "CHANGELOG.md").write_text(BEFORE)
    changelog.main([])
    assert (tmp_path / "CHANGELOG.md").read_text() == BEFORE.replace("- Two.\n", "- Two.\n- Three.\n")
    assert [file.name for file in (tmp_path / "changelog.d").iterdir()] == ["README.md"]


@pytest.mark.parametrize("name", ["drain.md", "drain.mended.md", "drain.fixed.txt"])
def test_a_name_of_no_kind_is_refused(name, tmp_path):
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / name).write_text("Three.")
    with pytest.raises(ValueError, match=name):
        changelog.fragments(tmp_path)


def test_the_fragments_of_this_repository_have_names_of_kinds():
    assert all(file.read_text(encoding="utf-8").strip() for _, file in changelog.fragments(changelog.ROOT))
