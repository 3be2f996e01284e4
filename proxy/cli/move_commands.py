"""``epochgate approve|pause|resume|rollback``: what somebody says about the move of a group."""

from typing import Annotated
from uuid import uuid4

import typer

from protocol_codecs.printable import printable
from proxy.cli.control_client import (
    CommandInvalid,
    ControlAddress,
    ControlConfig,
    NoControlError,
    give,
    place,
)
from proxy.cli.tls_options import Authorities, Certificate, Key
from proxy.config.loader import ConfigError
from proxy.control.requests import CommandAnswer, CommandBody
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode
from translation.moving.command_writes import CommandState
from translation.rollout.commands import CommandKind

_Group = Annotated[str, typer.Argument(help="The group, by its id.", show_default=False)]
_Policy = Annotated[
    str,
    typer.Option(
        "--policy", metavar="DIGEST", help="Refuse it unless this policy is in force (`move.policy`)."
    ),
]
_Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="What for, for those who look at it later.")]

_CODES = {
    CommandState.DONE: ExitCode.SUCCESS,
    CommandState.REFUSED: ExitCode.FAILED,
    CommandState.UNAVAILABLE: ExitCode.FAILED,
    CommandState.PENDING: ExitCode.UNDECIDED,
}


def approve(
    group: _Group,
    step: Annotated[
        int, typer.Option("--step", metavar="N", min=1, help="The step that may begin, counted from 1.")
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="DIGEST", help="The policy that is meant, as the group's page names it."
        ),
    ],
    why: _Why = "",
    control: ControlAddress = None,
    config: ControlConfig = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authorities = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Let the next step of a group's move begin, where the policy says `approval: required`.

    It is refused if another policy is in force, or another step is next; the message says what is now.
    """
    _give(
        CommandKind.APPROVE,
        CommandBody(group=group, step=step, policy=policy, why=why),
        control,
        config,
        cert,
        key,
        ca,
        output,
    )


def pause(
    group: _Group,
    why: _Why = "",
    policy: _Policy = "",
    control: ControlAddress = None,
    config: ControlConfig = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authorities = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Hold the move of a group: nobody more is translated, and no step begins, until `resume`."""
    _give(
        CommandKind.PAUSE,
        CommandBody(group=group, policy=policy, why=why),
        control,
        config,
        cert,
        key,
        ca,
        output,
    )


def resume(
    group: _Group,
    why: _Why = "",
    policy: _Policy = "",
    control: ControlAddress = None,
    config: ControlConfig = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authorities = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Let the move of a group go on: at its step after `pause`, at the first step after `rollback`."""
    _give(
        CommandKind.RESUME,
        CommandBody(group=group, policy=policy, why=why),
        control,
        config,
        cert,
        key,
        ca,
        output,
    )


def rollback(
    group: _Group,
    why: _Why = "",
    policy: _Policy = "",
    control: ControlAddress = None,
    config: ControlConfig = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authorities = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Bring the translated members of a group back to the classic protocol, and keep it there until `resume`.

    The command ends when every replica has to hold to it; the members go back one after another.
    """
    _give(
        CommandKind.ROLLBACK,
        CommandBody(group=group, policy=policy, why=why),
        control,
        config,
        cert,
        key,
        ca,
        output,
    )


def _give(
    act: CommandKind,
    body: CommandBody,
    control: str | None,
    config: ControlConfig,
    cert: Certificate,
    key: Key,
    ca: Authorities,
    output: OutputFormat,
) -> None:
    try:
        where = place(control, config, cert, key, ca)
    except ConfigError as error:
        raise _ended(str(error), ExitCode.USAGE) from None
    # One that is sent again because its answer was lost counts once.
    body = CommandBody(group=body.group, policy=body.policy, step=body.step, why=body.why, id=str(uuid4()))
    try:
        answer = give(where, act, body)
    except NoControlError as error:
        raise _ended(str(error), ExitCode.FAILED) from None
    except CommandInvalid as error:
        raise _ended(str(error), ExitCode.USAGE) from None
    _report(answer, output)
    code = _CODES[answer.outcome.state]
    if code is not ExitCode.SUCCESS:
        raise typer.Exit(code)


def _report(answer: CommandAnswer, output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json(answer)
        return
    is_done = answer.outcome.state is CommandState.DONE
    what = f"{answer.group}: {answer.act} {answer.outcome.state}: {answer.outcome.text}"
    typer.echo(printable(f"{answer.group}: {answer.outcome.text}" if is_done else what), err=not is_done)


def _ended(why: str, code: ExitCode) -> typer.Exit:
    typer.echo(printable(f"error: {why}"), err=True)
    return typer.Exit(code)
