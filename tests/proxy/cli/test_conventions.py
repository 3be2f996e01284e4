"""What holds for every command: help, invalid options, reports as JSON, colours, completion."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from proxy.cli import command_line
from proxy.runtime.exit_codes import ExitCode
from tests.proxy.cli.commands import leaves, options

REPORTS = {
    "version",
    "status",
    "preflight",
    "approve",
    "pause",
    "resume",
    "rollback",
    "policy from-readiness",
    "config check",
    "config diff",
    "policy check",
    "policy plan",
    "capture",
    "verify",
    "pipeline readiness",
    "pipeline progress",
    "pipeline audit",
    "pipeline tables show",
}
COLOUR = re.compile(r"\x1b\[(\d+;)*[39]\d")


def run(*arguments, **environment):
    return CliRunner().invoke(command_line(), [*map(str, arguments)], env=environment)


@pytest.fixture(autouse=True)
def colours_as_outside(monkeypatch):
    """`--no-color` sets the variable for the process; here it ends with the test."""
    monkeypatch.setenv("NO_COLOR", "")


@pytest.mark.parametrize("command", sorted(leaves()))
def test_every_command_explains_itself(command):
    for asked in ("-h", "--help"):
        done = run(*command.split(), asked)
        assert done.exit_code == ExitCode.SUCCESS
        assert "Usage:" in done.output


@pytest.mark.parametrize("command", sorted(leaves()))
def test_an_unknown_option_of_any_command_is_a_usage_error(command):
    assert run(*command.split(), "--no-such-option").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("command", sorted(leaves()))
def test_a_short_option_means_the_same_in_every_command(command):
    short = {"-c": "--config", "-o": "--output", "-w": "--watch", "-h": "--help", "-V": "--version"}
    for parameter in leaves()[command].params:
        for one in parameter.opts:
            assert len(one) != 2 or short[one] in parameter.opts


def test_every_command_that_reports_does_so_as_json_too():
    assert {name for name, command in leaves().items() if {"--output", "-o"} <= options(command)} == REPORTS


def test_the_version_as_json():
    text, report = run("version"), run("version", "-o", "json")
    assert text.output == run("--version").output == run("-V").output
    assert text.output == f"epochgate {json.loads(report.output)['version']}\n"


def test_a_report_in_an_unknown_format_is_a_usage_error():
    done = run("version", "-o", "xml")
    assert done.exit_code == ExitCode.USAGE
    assert "'xml' is not one of" in done.output


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [
        (("status", "-h"), {}, True),
        (("status", "-h"), {"NO_COLOR": "1"}, False),
        (("--no-color", "status", "-h"), {}, False),
        (("status", "--no-color", "-h"), {}, False),
    ],
)
def test_colours_can_be_switched_off(arguments, environment, coloured):
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    shell = {**inherited, "FORCE_COLOR": "1", "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-m", "proxy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=shell, check=True)
    assert bool(COLOUR.search(done.stdout)) is coloured


@pytest.mark.parametrize(
    ("typed", "offered"), [("epochgate po", "policy"), ("epochgate status --ou", "--output")]
)
def test_a_shell_completes_commands_and_options(typed, offered):
    asked = {"_EPOCHGATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    program = "import sys; sys.argv[0] = 'epochgate'; from proxy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        check=True,
    )
    assert done.stdout.split() == [offered]
