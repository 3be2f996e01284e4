"""`epochgate preflight`: options, and what is printed."""

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from protocol_codecs.printable import printable
from proxy.admin.admin_client import Credentials, admin_url, credentials_for
from proxy.admin.preflight_report import Finding, Report, Status
from proxy.cli.tls_options import Authorities, Certificate, Key, TokenFile
from proxy.config.fleet import UnreadableSecret
from proxy.config.loader import ConfigError, load_config
from proxy.config.policy_source import load_policy_from, policy_of
from proxy.config.schema import Config
from proxy.preflight.ask import Target, account_of, ask, replicas_url, upstream_of, with_files
from proxy.preflight.checks.check import count
from proxy.preflight.facts import BadProperty, Version
from proxy.preflight.judge import acceptable, check_preflight, judge
from proxy.runtime.console_output import NoColor, Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.kafka_options import KafkaConf, KafkaConfFile, pairs
from proxy.transport.tls_errors import TlsFilesError
from translation.policy.policy import Mode, Policy

_GROUPS_SHOWN = 8
_STYLES = {
    Status.FOUND: "bold red",
    Status.UNKNOWN: "yellow",
    Status.ACCEPTED: "dim",
    Status.PASSED: "green",
    Status.NOT_ASKED: "dim",
}


class FailOn(StrEnum):
    """With which status of the report the exit code is not 0."""

    UNKNOWN = "unknown"
    FOUND = "found"
    NEVER = "never"


_CODES = {
    FailOn.UNKNOWN: {Status.FOUND: ExitCode.PROBLEM_FOUND, Status.UNKNOWN: ExitCode.UNDECIDED},
    FailOn.FOUND: {Status.FOUND: ExitCode.PROBLEM_FOUND},
    FailOn.NEVER: {},
}


def preflight(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="The proxy's configuration, which names the brokers, ports, policy and the account of `fleet`.",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HOST:PORT",
            help="A broker, or several separated by commas, instead of --config's.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The policy that is to be in force, instead of --config's. Without any, all groups are to move.",
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Admin port of a running proxy; a URL is fine too. Repeat the option for several replicas that are no "
            "fleet.",
        ),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Admin port of all replicas, by a name that has the addresses of each, as a headless Service has. A "
            "URL is fine too; without one it is https if --config has `admin.tls`.",
        ),
    ] = None,
    token_file: TokenFile = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: Key = None,
    kafka_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="The brokers' release, such as 4.1.0, instead of --config's (`preflight.kafka_version`): adds what is "
            "known of it.",
        ),
    ] = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="List what this check finds, and do not count it. Repeat the option for several; those of "
            "`preflight.accept` in --config are accepted too.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            metavar="STATUS",
            help="What the exit code tells: anything found or unknown (unknown), only what was found (found), or never "
            "anything (never).",
        ),
    ] = FailOn.UNKNOWN,
    timeout_s: Annotated[
        float, typer.Option(min=1, max=600, metavar="SECONDS", help="How long each request may take.")
    ] = 10.0,
    output: Output = OutputFormat.TEXT,
    _no_color: NoColor = False,
) -> None:
    """Check before a migration that brokers, groups, ACLs and the proxy let groups move, and back. Writes nothing.

    It calls the brokers with the account of `fleet` or of --kafka-conf, else without authentication. What can't be
    checked is reported as unknown, never as passed.

    The exit code is 0 if everything was checked and nothing was found, 3 if something was found, 4 if nothing was found
    and something is unknown (--fail-on changes both), 2 if an option or the configuration is invalid.
    """
    try:
        target = _target(
            config=config,
            bootstrap=bootstrap,
            policy=policy,
            proxies=tuple(admin_url(one, None) for one in proxy or ()),
            replicas=replicas,
            credentials=credentials_for(config, token_file, ca, cert, key),
            version=kafka_version,
            given=with_files(pairs(kafka_conf), pairs(kafka_conf_file)),
            timeout_s=timeout_s,
        )
        unknown_names = sorted(set(accept or ()) - acceptable())
        if unknown_names:
            raise ConfigError(f"--accept: there is no check {unknown_names[0]!r}")
        if target.config is not None:
            check_preflight(target.config)
        facts = trio.run(ask, target)
    except (ConfigError, TlsFilesError, UnreadableSecret, BadProperty, ValueError) as error:
        typer.echo(printable(f"error: {error}"), err=True)
        raise typer.Exit(ExitCode.USAGE) from None
    configured = () if target.config is None else target.config.preflight.accept
    report = judge(facts, (*configured, *(accept or ())))
    try:
        if output is OutputFormat.JSON:
            print_json(report)
        else:
            show(report, Console())
    except BrokenPipeError:
        raise  # typer ends the command quietly
    except OSError as error:
        typer.echo(f"error: the report can't be written: {error.strerror}", err=True)
        raise typer.Exit(ExitCode.FAILED) from None
    raise typer.Exit(_CODES[fail_on].get(report.status, ExitCode.SUCCESS))


def _target(
    *,
    config: Path | None,
    bootstrap: str | None,
    policy: Path | None,
    proxies: tuple[str, ...],
    replicas: str | None,
    credentials: Credentials,
    version: str | None,
    given: dict[str, str],
    timeout_s: float,
) -> Target:
    loaded = None if config is None else load_config(config)
    if version is None and loaded is not None:
        version = loaded.preflight.kafka_version
    upstream = upstream_of(loaded, bootstrap, given)
    return Target(
        bootstrap=upstream.addresses,
        tls=upstream.tls,
        account=account_of(loaded, given, bootstrap),
        policy=_policy(policy, loaded, config),
        config=loaded,
        proxies=proxies,
        replicas=None if replicas is None else _replicas(replicas, loaded),
        credentials=credentials,
        version=None if version is None else Version.parse(version),
        timeout_s=timeout_s,
    )


def _replicas(named: str, loaded: Config | None) -> str:
    """The URL of ``--replicas``, which names it, or has only host and port."""
    if "://" in named:
        return admin_url(named, None)
    return replicas_url(named, tls=loaded is not None and loaded.admin.tls is not None)


def _policy(file: Path | None, loaded: Config | None, config: Path | None) -> Policy:
    if file is not None:
        return load_policy_from(file).policy
    if loaded is not None and config is not None and loaded.policy.file is not None:
        return policy_of(loaded, config)
    return Policy(default=Mode.TRANSLATE)


def show(report: Report, console: Console) -> None:
    """Print a report for people: one line, if nothing was found."""
    counts = Counter(one.status for one in report.checks)
    if report.status is Status.PASSED and not report.findings:
        passed = f"{counts[Status.PASSED]} of {len(report.checks)} checks passed"
        brokers, groups = count(report.brokers, "broker"), count(report.groups, "group")
        cluster = f"{brokers}, {groups}, {report.to_move} of them to move"
        console.print(Text(f"{_verdict(report)} {passed}; {cluster}", _STYLES[report.status]))
        return
    if report.findings:
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 1, 0))
        table.add_column("STATUS", no_wrap=True)
        table.add_column("CHECK", no_wrap=True)
        table.add_column("WHAT, AND WHAT TO DO", overflow="fold")
        for finding in report.findings:
            status = _status(finding)
            table.add_row(Text(status, _STYLES[status]), Text(finding.check), _finding(finding))
        console.print(table)
    counted = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    needs = sorted({one.needs for one in report.checks if one.needs is not None})
    more = f" (they need {', '.join(needs)})" if needs else ""
    lines = [
        f"{count(report.brokers, 'broker')}, {count(report.groups, 'group')}, {report.to_move} of them to move",
        f"{len(report.checks)} checks: {counted}{more}",
        *(f"note: {one}" for one in report.advice),
    ]
    for line in lines:
        console.print(Text(line))
    console.print(Text(_verdict(report), _STYLES[report.status]))


def _status(finding: Finding) -> Status:
    if finding.accepted:
        return Status.ACCEPTED
    return Status.UNKNOWN if finding.unknown else Status.FOUND


def _finding(finding: Finding) -> Text:
    lines = [finding.what]
    if finding.groups:
        shown = ", ".join(finding.groups[:_GROUPS_SHOWN])
        more = len(finding.groups) - _GROUPS_SHOWN
        lines.append(f"groups ({len(finding.groups)}): {shown}{f' and {more} more' if more > 0 else ''}")
    if finding.checks:
        lines.append(f"not checked: {', '.join(finding.checks)}")
    lines.append(f"do: {finding.do}")
    return Text("\n".join(printable(line) for line in lines))


def _verdict(report: Report) -> str:
    return {
        Status.FOUND: "Something was found: see above before any group moves.",
        Status.UNKNOWN: "Nothing was found, but not everything could be checked.",
        Status.PASSED: "Nothing was found.",
    }[report.status]
