"""``epochgate config check|brokers|schema``."""

import json
import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from proxy.cli.configuration import checked, refused
from proxy.cli.policy import policy_report, print_policy
from proxy.config.document import ConfigError
from proxy.config.fleet import UnreadableSecret, kafka_properties
from proxy.config.loader import load_config
from proxy.config.policy_source import policy_path
from proxy.config.schema import Config
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode


def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")], output: Output = OutputFormat.TEXT
) -> None:
    """Check a configuration file, the TLS files, secrets and policy that it names, without starting anything.

    All errors are listed, and the exit code is 2. Without any it prints what `policy check` prints of the policy.
    """
    try:
        config, policy = checked(file)
    except ConfigError as error:
        if output is OutputFormat.JSON:
            print_json({"file": str(file), "valid": False, "errors": error.problems})
        raise refused(error) from None
    source = policy_path(config, file)
    if output is OutputFormat.JSON:
        report = None if source is None or policy is None else policy_report(source, policy)
        print_json({"file": str(file), "valid": True, "errors": (), "policy": report})
        return
    typer.echo(f"{file}: good")
    if source is None or policy is None:
        typer.echo("no policy: every group is observed, and none is moved")
    else:
        print_policy(source, policy)


def brokers(file: Annotated[Path, typer.Argument(help="The configuration file.")]) -> None:
    """Find out which security the brokers require, and list what the configuration lacks for it.

    Nothing is started and nothing written. The account of `fleet` is tried if it has what the brokers require. The exit
    code is 0 if nothing is missing, 1 if no broker answers, 2 if the configuration is invalid, and 3 if something is
    missing.
    """
    import trio  # noqa: PLC0415 - only this command of the module needs it

    from proxy.preflight.broker_security import NotLearned, problems  # noqa: PLC0415

    try:
        config = load_config(file)
        given = {} if config.fleet is None else kafka_properties(config.fleet, os.environ)
    except (ConfigError, UnreadableSecret) as error:
        raise refused(error) from None
    try:
        found = trio.run(problems, config, given)
    except NotLearned as error:
        raise refused(error, ExitCode.FAILED) from None
    if not found:
        typer.echo("the brokers require nothing that the configuration lacks")
        return
    if config.fleet is not None:
        found.append(
            f"the account of the member log needs Read, Write, Describe and DescribeConfigs on the topic "
            f"{config.fleet.topic}, and Create if it is to make it"
        )
    raise refused(ValueError("\n".join(found)), ExitCode.PROBLEM_FOUND)


def schema() -> None:
    """Print the JSON schema of the configuration file."""
    typer.echo(json.dumps(msgspec.json.schema(Config), indent=2))
