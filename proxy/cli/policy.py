"""``epochgate policy check|plan``; ``policy from-readiness`` is the pipeline's."""

from pathlib import Path
from typing import Annotated, Any

import typer

from protocol_codecs.policy_manifest import MANIFEST
from protocol_codecs.printable import printable
from proxy.admin.admin_client import (
    AdminAddress,
    AdminConfig,
    NoAnswerError,
    admin_url,
    credentials_for,
    fetch_groups,
)
from proxy.cli.configuration import refused
from proxy.cli.tls_options import Authorities, Certificate, Key, TokenFile
from proxy.config.loader import ConfigError
from proxy.config.policy_explanation import assignor_notes, explain, note_on_moves, rule_reports, wave_reports
from proxy.config.policy_plan import LiveGroups, plan_lines, summary, unused, unused_rules
from proxy.config.policy_plan import plan as changes_of
from proxy.config.policy_source import LoadedPolicy, load_policy_from
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode

_ADMIN_S = 10.0
"""How long the admin port of a running proxy may take to answer."""

PolicyPath = Annotated[Path, typer.Argument(metavar="FILE", help="The policy file, or a directory of them.")]


def check(file: PolicyPath, output: Output = OutputFormat.TEXT) -> None:
    """Check a policy file or directory, and say what each of its rules does.

    The exit code is 2 if it is invalid.
    """
    try:
        loaded = load_policy_from(file)
    except ConfigError as error:
        if output is OutputFormat.JSON:
            print_json({"file": str(file), "valid": False, "errors": error.problems})
        raise refused(error) from None
    if output is OutputFormat.JSON:
        print_json(policy_report(file, loaded))
    else:
        print_policy(file, loaded)


def policy_report(file: Path, loaded: LoadedPolicy) -> dict[str, Any]:
    """What there is to know of a valid policy, for programs."""
    policy = loaded.policy
    return {
        "file": str(file),
        "valid": True,
        "errors": (),
        "digest": loaded.digest,
        "left_out": loaded.left_out,
        "default": policy.default,
        "rules": rule_reports(policy),
        "waves": wave_reports(policy),
        "assignors_allowed": tuple(assignor_notes(policy)),
        "moves": note_on_moves(policy),
    }


def print_policy(file: Path, loaded: LoadedPolicy) -> None:
    """Print what a valid policy does, rule by rule."""
    policy = loaded.policy
    rules = "1 rule" if len(policy.rules) == 1 else f"{len(policy.rules)} rules"
    typer.echo(f"{file}: good, {rules}, default {policy.default}")
    if file.is_dir():
        typer.echo(f"digest {loaded.digest}")
    for name in loaded.left_out:
        typer.echo(printable(f"{name}: left out: generated, and not named by {MANIFEST}"))
    for line in explain(policy):
        typer.echo(printable(line))


def plan(
    file: PolicyPath,
    admin: AdminAddress = None,
    config: AdminConfig = None,
    token_file: TokenFile = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: Key = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Preview what a policy file would change in the live groups of a running proxy, and what it can't.

    Changes nothing. The exit code is 1 if no proxy answers, 2 if the file is invalid.
    """
    try:
        policy = load_policy_from(file).policy
        url = admin_url(admin, config)
        credentials = credentials_for(config, token_file, ca, cert, key)
        live = fetch_groups(url, LiveGroups, timeout_s=_ADMIN_S, credentials=credentials)
    except ConfigError as error:
        raise refused(error) from None
    except NoAnswerError as error:
        raise refused(error, ExitCode.FAILED) from None
    changes = changes_of(policy, live.groups)
    if output is OutputFormat.JSON:
        print_json(
            {
                "file": str(file),
                "admin": url,
                "changes": changes,
                "unused_rules": unused_rules(policy, live.groups),
                "groups": len(live.groups),
                "left_out": live.left_out,
            }
        )
        return
    of_all = summary(changes, len(live.groups), live.left_out)
    for line in (*plan_lines(changes), *unused(policy, live.groups), *of_all):
        typer.echo(printable(line))
