"""What the commands print and write of names that clients made up."""

import pytest
import yaml

from pipeline.commands.common import exit_on_error, say
from pipeline.errors import PipelineError
from pipeline.readiness import policy_file
from proxy.runtime.exit_codes import ExitCode

HOSTILE = "\x1b[2J\r\n\x9b\u202egnp"


def test_a_line_can_not_command_the_terminal(capsys):
    say(f"quarantined 1: {HOSTILE}")
    assert capsys.readouterr().out == "quarantined 1: \\x1b[2J\\r\\n\\x9b\\u202egnp\n"


def test_an_error_can_not_command_the_terminal(capsys):
    with pytest.raises(Exception) as ended, exit_on_error():  # noqa: PT011  typer's Exit
        raise PipelineError(HOSTILE)
    assert ended.value.exit_code == ExitCode.FAILED
    assert not {"\x1b", "\r", "\x9b", "\u202e"} & set(capsys.readouterr().err)


@pytest.mark.parametrize("name", [HOSTILE, "ü", "a: b # c", '"'])
def test_a_name_in_a_policy_file_is_itself_and_can_not_command_the_terminal(name):
    written = policy_file.quoted(name)
    assert yaml.safe_load(written) == name
    assert written.isprintable()
