"""``epochgate status``: shows the groups of a running proxy in the terminal, and when it exits with 3."""

import time
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from protocol_codecs.printable import printable
from proxy.admin.admin_client import (
    NO_CREDENTIALS,
    AdminAddress,
    AdminConfig,
    Credentials,
    NoAnswerError,
    admin_url,
    credentials_for,
    fetch_groups,
)
from proxy.cli.tls_options import Authorities, Certificate, Key, TokenFile
from proxy.config.loader import ConfigError
from proxy.groups.fleet_view import FleetView
from proxy.groups.formatting import ago, command_argument, count_partitions, duration, partitions, time_of_day
from proxy.groups.group_list import Query, chosen, is_stopped, needs_help
from proxy.groups.snapshot import ConnectView, GroupView, Snapshot
from proxy.groups.timeline import client_names
from proxy.runtime.console_output import NoColor, Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode
from translation.member_log.group_records import Phase

_TIMEOUT_S = 5.0
_EVENTS_SHOWN = 12
_REPLICAS_SHOWN = 50
_PROBLEMS_SHOWN = 10
_TAKES_A_RESUME = frozenset({Phase.HELD, Phase.ABORTED, Phase.PAUSED, Phase.ROLLED_BACK})


def status(
    group: Annotated[
        str | None, typer.Argument(help="Show one group: its members and latest events.")
    ] = None,
    admin: AdminAddress = None,
    config: AdminConfig = None,
    token_file: TokenFile = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: Key = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second, until Ctrl-C.")] = False,
    output: Output = OutputFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
    _no_color: NoColor = False,
) -> None:
    """Show the groups of a running proxy, or one of them.

    The exit code is 3 in case of trouble: a group is stuck, its move was held or aborted, or it leaves partitions to
    nobody; the policy file is refused; the proxy or its member log is not ready. It is 1 if no proxy answers.
    """
    in_json = as_json or output is OutputFormat.JSON
    try:
        url = admin_url(admin, config)
        credentials = credentials_for(config, token_file, ca, cert, key)
        if watch and not in_json:
            _watch(url, group, credentials)
            return
        shown = fetch(url, group, credentials)
    except (NoAnswerError, ConfigError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(ExitCode.USAGE if isinstance(error, ConfigError) else ExitCode.FAILED) from None
    if in_json:
        print_json(shown)
    else:
        Console().print(rendered(shown, one=group is not None))
    if has_trouble(shown):
        raise typer.Exit(ExitCode.PROBLEM_FOUND)


def fetch(url: str, group: str | None, credentials: Credentials = NO_CREDENTIALS) -> Snapshot:
    """Ask a proxy for its snapshot: of all groups, or of one with its events.

    :raises NoAnswerError: it does not answer, or something else does.
    :raises ConfigError: a file of the credentials can't be used.
    """
    events = group is not None
    return fetch_groups(
        url, Snapshot, timeout_s=_TIMEOUT_S, events=events, group=group, credentials=credentials
    )


def rendered(snapshot: Snapshot, *, one: bool) -> RenderableType:
    """Render a snapshot for the terminal, with control characters in clients' texts escaped."""
    refused = snapshot.policy_refused
    snapshot = _printable(snapshot)
    state = "ready" if snapshot.ready else f"not ready: {snapshot.not_ready_reason}"
    head = Text.assemble(
        ("epochgate ", "bold"),
        f"{snapshot.version} on {', '.join(snapshot.replicas)}: ",
        (state, "green" if snapshot.ready else "bold red"),
        "" if snapshot.policy_is_current else (", policy file refused, the one before holds", "bold red"),
    )
    for problem in _problems(refused):
        head.append(f"\n{problem}", "red")
    if snapshot.fleet is not None:
        head = Text("\n").join([head, *_fleet(snapshot.fleet, snapshot.time)])
    if one:
        parts = [part for group in snapshot.groups for part in _group(group, snapshot)]
        return Group(head, *(parts or [Text("The proxy does not know this group.")]))
    if not snapshot.groups:
        return Group(head, Text("No group has been seen yet."))
    return Group(head, _groups(snapshot))


def _problems(refused: str | None) -> list[str]:
    """Why the policy file is refused, line by line."""
    return [printable(line) for line in (refused or "").splitlines()[:_PROBLEMS_SHOWN]]


def _printable(snapshot: Snapshot) -> Snapshot:
    return msgspec.convert(_with_printable_texts(msgspec.to_builtins(snapshot)), Snapshot)


def _with_printable_texts(value: Any) -> Any:
    """Return the value with control characters escaped in all its texts."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [_with_printable_texts(one) for one in value]
    if isinstance(value, dict):
        return {name: _with_printable_texts(one) for name, one in value.items()}
    return value


def _groups(snapshot: Snapshot) -> RenderableType:
    table = Table(box=None, header_style="dim", pad_edge=False, expand=False)
    table.add_column("GROUP", overflow="fold")
    for name in ("MODE", "STATE", "NEW", "MEMBERS", "REBALANCED"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    notes: list[RenderableType] = []
    for group in chosen(snapshot.groups, Query()):
        progress, last = group.progress, group.last_rebalance
        rebalance = "none seen"
        if last is not None:
            since, until = last.started_at, last.ended_at
            rebalance = (
                f"for {duration(snapshot.time - since)}" if until is None else ago(until, snapshot.time)
            )
        new = f"{progress.done} of {progress.total}"
        table.add_row(Text(group.id), group.mode, _state(group.state), new, _members(group), rebalance)
        notes += [Text(f"{group.id}: ").append_text(note) for note in _notes(group, snapshot)]
    return Group(table, *notes)


def _notes(group: GroupView, snapshot: Snapshot) -> list[Text]:
    """What a person should know of a group, each in a line: what is wrong, its move, and the last command about it."""
    notes: list[Text] = []
    if group.stuck:
        notes.append(Text(f"stuck: {group.stuck}", "bold red"))
    if group.unowned is not None:
        notes.append(Text(group.unowned.text, "bold red" if group.unowned.why_not else "yellow"))
    move = group.move
    if move is not None:
        notes.append(Text(f"moved by steps: {move.text}", "bold red" if is_stopped(group) else ""))
        if move.said:
            at = "" if move.said_ms is None else f", {ago(move.said_ms / 1000, snapshot.time)}"
            notes.append(Text(f"last command: {move.said}{at}"))
        control = f" {snapshot.control}" if snapshot.control else ""
        if move.needs_approval:
            step = f"--step {move.next_step} --policy {move.policy}"
            notes.append(
                Text(f"to begin it, run: epochgate approve {step}{control} {command_argument(group.id)}")
            )
        elif move.phase in _TAKES_A_RESUME:
            notes.append(
                Text(f"to continue the move, run: epochgate resume{control} {command_argument(group.id)}")
            )
    if group.why_not:
        notes.append(Text(f"not translatable: {group.why_not}", "yellow"))
    return notes


def has_trouble(snapshot: Snapshot) -> bool:
    """Whether somebody should look at the proxy or at one of its groups."""
    log = snapshot.fleet
    return (
        not snapshot.ready
        or not snapshot.policy_is_current
        or (log is not None and log.state != "ready")
        or any(needs_help(one) or is_stopped(one) for one in snapshot.groups)
    )


def _group(group: GroupView, snapshot: Snapshot) -> list[RenderableType]:
    title = Text.assemble(
        ("\n" + group.id, "bold"), f"  mode {group.mode} by {group.rule}; state ", _state(group.state)
    )
    broker = group.broker
    if broker is not None and broker.type:
        title.append(
            f"; the broker says {broker.type}: {broker.consumer} new, {broker.classic} classic", "dim"
        )
    parts: list[RenderableType] = [title, *_notes(group, snapshot)]
    if group.connect is not None:
        parts.append(_connect(group.connect, snapshot.time))
    if group.options:
        parts.append(Text(f"options: {group.options}", "yellow"))
    parts += [Text(f"note: {note}", "yellow") for note in group.notes]
    names = client_names(group)
    members = Table(box=None, header_style="dim", pad_edge=False)
    members.add_column("CLIENT", overflow="fold")
    for name in ("PROTOCOL", "STATE", "GENERATION", "EPOCH"):
        members.add_column(name, no_wrap=True, overflow="ellipsis")
    members.add_column("PARTITIONS", overflow="fold")
    for member in group.members:
        client = Text(names.get(member.id) or member.id)
        client.append(f"\n{member.client_host}, {member.software or 'unknown software'}", "dim")
        members.add_row(
            client,
            member.protocol,
            _state(member.state),
            str(member.generation) if member.generation >= 0 else "-",
            str(member.epoch) if member.epoch >= 0 else "-",
            Text(f"{count_partitions(member.partitions)}: {partitions(member.partitions)}"),
        )
    events: list[RenderableType] = []
    for event in group.events[: -_EVENTS_SHOWN - 1 : -1]:
        what = event.kind.replace("_", " ")
        if event.kind == "state_changed":
            what = f"{event.previous_state} -> {event.state}"
        who = names.get(event.member) or event.client_id or event.member
        said = filter(None, (who, what, partitions(event.partitions), event.reason))
        at = Text(time_of_day(event.time_us / 1e6), "dim")
        events.append(Text("  ").join([at, Text(", ".join(said))]))
    head = Text(f"latest events (UTC; now it is {time_of_day(snapshot.time)})", "dim")
    return [*parts, members, *_elsewhere(group, snapshot.time), head, *events]


def _connect(connect: ConnectView, now: float) -> Text:
    """Return a line about the workers of Kafka Connect."""
    text = Text(
        f"Kafka Connect: workers here: {connect.workers}, connectors: {connect.connectors}, tasks: {connect.tasks}, "
        f"leader: {connect.leader_url or 'not known'}"
    )
    if connect.rejoins_at is not None:
        text.append(f", the workers join again in {duration(connect.rejoins_at - now)}", "yellow")
    return text


def _fleet(fleet: FleetView, now: float) -> list[Text]:
    """Return a line about the member log, and one about who serves how many."""
    said = (
        f"away: {fleet.partitions_away} of {fleet.partitions} partitions"
        if fleet.state == "away"
        else fleet.state
    )
    read = (
        "nothing read"
        if fleet.newest_record_at is None
        else f"newest record {ago(fleet.newest_record_at, now)}"
    )
    unresolved = f"{fleet.unresolved} not read back"
    if fleet.unresolved:
        unresolved += f", the oldest for {duration(fleet.oldest_unresolved_s)}"
    if fleet.ignored:
        reasons = ", ".join(sorted(fleet.ignored))
        unresolved += f", {sum(fleet.ignored.values())} ignored that are none of the fleet's ({reasons})"
    log = Text.assemble(
        "member log: ",
        (
            said if fleet.reason is None else f"{said}: {fleet.reason}",
            "green" if fleet.state == "ready" else "bold red",
        ),
        f", {read}, {unresolved}",
    )
    if fleet.warning is not None:
        log.append(f"; {fleet.warning}", "bold red")
    named = [
        f"{one.name or one.id}{' (here)' if one.here else ''}{' (silent)' if one.silent else ''} {one.members}"
        for one in fleet.replicas[:_REPLICAS_SHOWN]
    ]
    more = len(fleet.replicas) - len(named) + fleet.replicas_left_out
    served = Text(f"{fleet.members} translated members: {', '.join(named)}")
    if more:
        served.append(f" and {more} more replicas")
    return [log, served]


def _elsewhere(group: GroupView, now: float) -> list[RenderableType]:
    """Return the members that other replicas serve."""
    fleet = group.fleet
    if fleet is None or not fleet.elsewhere:
        return []
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("MEMBER", "REPLICA", "STATE", "GENERATION", "RECORD WRITTEN"):
        table.add_column(name, overflow="fold")
    for member in fleet.elsewhere:
        table.add_row(
            Text(member.id),
            Text(member.replica or member.replica_id),
            Text(member.state),
            str(member.generation) if member.generation >= 0 else "-",
            ago(member.written_at, now),
        )
    parts: list[RenderableType] = [
        Text(f"at other replicas ({fleet.members} members in the fleet)", "dim"),
        table,
    ]
    if fleet.left_out:
        parts.append(Text(f"{fleet.left_out} more members", "dim"))
    return parts


def _state(state: str) -> Text:
    return Text(state, "green" if state == "Stable" else "dim" if state == "Empty" else "yellow")


def _members(group: GroupView) -> str:
    counts = _protocol_counts(group)
    if group.fleet is None or not group.fleet.served_by:
        return counts
    return f"{counts}; {group.fleet.members} in the fleet"


def _protocol_counts(group: GroupView) -> str:
    progress = group.progress
    counts = {
        "translated": progress.translated,
        "classic": progress.classic,
        "native": progress.consumer,
        "share": progress.share,
        "streams": progress.streams,
        "Connect": progress.connect,
        "elsewhere": progress.elsewhere,
    }
    return ", ".join(f"{count} {way}" for way, count in counts.items() if count) or "none"


def _watch(url: str, group: str | None, credentials: Credentials) -> None:
    """Redraw every second until Ctrl-C; show an error while the proxy does not answer."""
    with Live(refresh_per_second=4, screen=True) as live:
        try:
            while True:
                try:
                    live.update(rendered(fetch(url, group, credentials), one=group is not None))
                except NoAnswerError as error:
                    live.update(Text(printable(str(error)), "bold red"))
                time.sleep(1)
        except KeyboardInterrupt:
            return
