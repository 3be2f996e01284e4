"""``epochgate config check|schema``."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from proxy.cli.configuration import checked, refused
from proxy.cli.policy import policy_report, print_policy
from proxy.config.document import ConfigError
from proxy.config.policy_source import policy_path
from proxy.config.schema import Config
from proxy.runtime.console_output import Output, OutputFormat, print_json


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


def schema() -> None:
    """Print the JSON schema of the configuration file."""
    typer.echo(json.dumps(msgspec.json.schema(Config), indent=2))
