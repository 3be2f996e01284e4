"""Failed tests that `make test` runs once more."""

import json

import pytest

from tests import again


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """Writes which tests have failed, as pytest's cache has it."""
    monkeypatch.chdir(tmp_path)

    def write(*names):
        again.FAILED.parent.mkdir(parents=True)
        again.FAILED.write_text(json.dumps(dict.fromkeys(names, True)))

    return write


def test_one_that_passes_alone_is_named(failed, monkeypatch, capsys):
    failed("test_some.py::test_by_chance")
    calls = []
    monkeypatch.setattr(pytest, "main", lambda arguments: calls.append(arguments) or 0)
    assert again.main(["--long"]) == 0
    assert calls[0][-2:] == ["--long", "test_some.py::test_by_chance"]
    assert capsys.readouterr().out.endswith("passed alone:\n  test_some.py::test_by_chance\n")


def test_one_that_fails_again_is_a_failure(failed, monkeypatch, capsys):
    failed("test_some.py::test_by_chance")
    monkeypatch.setattr(pytest, "main", lambda arguments: 1)
    assert again.main([]) == 1
    assert "passed alone" not in capsys.readouterr().out


@pytest.mark.parametrize("count", [0, again.AT_MOST + 1])
def test_many_or_none_are_not_tried_again(failed, monkeypatch, count):
    failed(*(f"test_some.py::test_{number}" for number in range(count)))
    monkeypatch.setattr(pytest, "main", lambda arguments: pytest.fail("it ran"))
    assert again.main([]) == 1


def test_without_a_cache_the_failure_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert again.main([]) == 1
