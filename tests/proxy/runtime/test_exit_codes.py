"""Each exit code, at a command that ends with it; signals are in tests/proxy/cli/test_cli.py, a stuck group in
tests/proxy/cli/test_status.py, a partition owned twice in tests/pipeline/test_audit_job.py,
each verdict of `verify` in tests/pipeline/test_verify.py.
"""

import ast
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proxy import cli
from proxy.cli import command_line, version
from proxy.demo import command as demo_command
from proxy.demo.verdict import Result
from proxy.runtime.exit_codes import MEANINGS, ExitCode

ROOT = Path(cli.__file__).parent.parent
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A good and a bad configuration and policy, in the current folder."""
    monkeypatch.chdir(tmp_path)
    good = 'upstream: {bootstrap: ["a:1"]}\nlisteners: [{advertised_host: h, nodes: {"0": 0}}]\n'
    for name, text in {
        "config.yaml": good,
        "other-limits.yaml": f"{good}limits: {{idle_timeout_s: 5}}\n",
        "two-workers.yaml": f"{good}workers: 2\n",
        "bad-config.yaml": f"{good}workres: 2\n",
        "policy.yaml": "default: observe\n",
        "bad-policy.yaml": "default: observ\n",
    }.items():
        Path(name).write_text(text)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("version", ExitCode.SUCCESS),
        ("config check config.yaml", ExitCode.SUCCESS),
        ("config diff config.yaml config.yaml", ExitCode.SUCCESS),
        ("config diff config.yaml other-limits.yaml", ExitCode.SUCCESS),
        ("config diff config.yaml two-workers.yaml", ExitCode.PROBLEM_FOUND),
        ("config diff config.yaml two-workers.yaml -o json", ExitCode.PROBLEM_FOUND),
        ("config diff config.yaml bad-config.yaml", ExitCode.USAGE),
        ("config diff bad-config.yaml config.yaml -o json", ExitCode.USAGE),
        ("config diff ftp://x config.yaml", ExitCode.USAGE),
        (f"config diff http://{NOWHERE} config.yaml", ExitCode.FAILED),
        ("config schema", ExitCode.SUCCESS),
        ("policy check policy.yaml", ExitCode.SUCCESS),
        ("", ExitCode.USAGE),
        ("nonsense", ExitCode.USAGE),
        ("run", ExitCode.USAGE),
        ("run --config bad-config.yaml", ExitCode.USAGE),
        ("run -c nowhere.yaml", ExitCode.USAGE),
        ("config check bad-config.yaml", ExitCode.USAGE),
        ("config check bad-config.yaml -o json", ExitCode.USAGE),
        ("policy check bad-policy.yaml", ExitCode.USAGE),
        ("policy check bad-policy.yaml -o json", ExitCode.USAGE),
        (f"policy plan bad-policy.yaml --admin {NOWHERE}", ExitCode.USAGE),
        ("policy plan policy.yaml --admin ftp://x", ExitCode.USAGE),
        ("policy plan policy.yaml -c bad-config.yaml", ExitCode.USAGE),
        (f"policy plan policy.yaml --admin {NOWHERE}", ExitCode.FAILED),
        ("status -c bad-config.yaml", ExitCode.USAGE),
        (f"status --admin {NOWHERE}", ExitCode.FAILED),
        (f"status --admin {NOWHERE} -o json", ExitCode.FAILED),
        ("demo --embedded --kafka a:1", ExitCode.USAGE),
        (f"demo --plain --kafka {NOWHERE}", ExitCode.FAILED),
        ("capture --out x", ExitCode.USAGE),
        ("pipeline readiness --out x", ExitCode.USAGE),
        ("pipeline progress --out x", ExitCode.USAGE),
        ("pipeline audit --out x", ExitCode.USAGE),
        ("verify", ExitCode.USAGE),
        ("verify --journal nowhere", ExitCode.FAILED),
        ("pipeline report --out x", ExitCode.USAGE),
    ],
)
def test_a_command_ends_with(files, command, code):
    assert CliRunner().invoke(command_line(), command.split()).exit_code == code


def test_a_demo_that_shows_nothing_found_a_problem(monkeypatch):
    monkeypatch.setattr(demo_command.trio, "run", lambda *_: Result(produced=0, steps=(), groups=()))
    assert CliRunner().invoke(command_line(), ["demo", "--plain"]).exit_code == ExitCode.PROBLEM_FOUND


@pytest.mark.parametrize("command", ["demo --plain", "version"])
def test_an_interrupt_has_its_own_code(monkeypatch, command):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_command.trio, "run", interrupted)
    monkeypatch.setattr(version, "print_json", interrupted)
    monkeypatch.setattr(version.typer, "echo", interrupted)
    assert CliRunner().invoke(command_line(), command.split()).exit_code == ExitCode.INTERRUPTED


def test_a_bug_has_its_own_code_and_shows_where_it_is(monkeypatch, capsys):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "command_line", lambda: broken)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == ExitCode.INTERNAL_ERROR
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_every_code_has_a_meaning():
    assert set(MEANINGS) == set(ExitCode)


def test_no_command_ends_with_a_bare_number():
    """They would get a meaning of their own."""
    numbers = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for room in ("proxy", "pipeline", "audit")
        for file in (ROOT / room).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and _name(call) in {"Exit", "exit", "SystemExit", "_exit"}
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]
    assert numbers == []


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))
