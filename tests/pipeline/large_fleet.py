"""Writes the tables of readiness, progress and audit for a fleet of any size, and says what a report must tell of them.

Written directly, without a journal and without Spark: the report reads tables, whoever wrote them.
"""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.audit import output as audit
from pipeline.journal.unfinished import UNFINISHED
from pipeline.progress import output as progress
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import output as readiness
from pipeline.rules.gains import ENOUGH
from pipeline.tables import LONG, Column, Table

START_US = 1_790_000_000_000_000
HOUR_US = 3_600_000_000
WINDOWS = progress.WINDOWS._replace(columns=(*progress.WINDOWS.columns, Column("batch", LONG, "")))
REASONS = {
    "custom_assignor": "members use the assignor com.example.Sticky, which no broker has",
    "client_too_old": "members speak JoinGroup version 1",
    "embedded_unreadable": "a subscription can't be read",
}
STATES = ("moved", "moved", "moved", "moving", "moved back", "not begun")


class Fleet(NamedTuple):
    """What was written, by the counts that a report must have."""

    states: dict[str, int]
    compared: dict[str, int]
    left: dict[tuple[str, str], int]
    blocked_by: dict[str, int]
    lost: int


def write(folder: Path, groups: int, seed: int = 7) -> Fleet:
    """Write the tables into ``readiness``, ``progress`` and ``audit``."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    rows: dict[str, list[dict[str, Any]]] = {}
    states, left, blocked_by, compared = (Counter[Any]() for _ in range(4))
    for number in range(groups):
        group = f"team-{number % 40}.service-{number}"
        state = STATES[number % len(STATES)]
        turn = number // len(STATES)
        code = list(REASONS)[turn % 3] if state == "not begun" and turn % 4 else None
        verdict = "not ready" if code else "ready"
        members = 1 + number % 50
        of_readiness(rows, group, members, number, code)
        moved_us = START_US + number * 40 * HOUR_US // groups
        of_windows(rows, group, members, state, moved_us)
        states[state] += 1
        compared[of_rebalances(rows, chance, group, state, moved_us)] += 1
        if state != "moved":
            left[verdict, state] += 1
        if code:
            blocked_by[code] += 1
    of_audit(rows, groups)
    for name, tables in {
        "readiness": readiness.TABLES,
        "progress": (*(one for one in progress.TABLES if one is not progress.WINDOWS), WINDOWS, UNFINISHED),
        "audit": (*audit.TABLES, UNFINISHED),
    }.items():
        for table in (*tables, QUARANTINE):
            save(table, rows.get(f"{name}.{table.name}", ()), folder / name)
    kinds = {kind: compared[kind] for kind in ("shorter", "same", "longer", "too_few")}
    return Fleet(dict(states), kinds, dict(left), dict(blocked_by), lost=12)


def save(table: Table, rows: Iterable[dict[str, Any]], folder: Path) -> None:
    at = folder / table.name
    at.mkdir(parents=True)
    filled = [{column.name: row.get(column.name) for column in table.columns} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled, schema=table.arrow), at / "part-0.parquet")


def add(rows: dict[str, list[dict[str, Any]]], table: str, **row: Any) -> None:
    rows.setdefault(table, []).append(row)


def of_readiness(
    rows: dict[str, list[dict[str, Any]]], group: str, members: int, number: int, code: str | None
) -> None:
    verdict = "not ready" if code else "ready"
    reasons = [{"code": code, "blocks": True, "text": REASONS[code]}] if code else []
    add(
        rows,
        "readiness.groups",
        group_id=group,
        kind="classic",
        protocol_type="consumer",
        state="Stable",
        members=members,
    )
    add(rows, "readiness.verdicts", group_id=group, verdict=verdict, reasons=reasons)
    if not code:
        wave = 1 + number // 1000
        add(
            rows,
            "readiness.waves",
            group_id=group,
            wave=wave,
            position=number,
            members=members,
            verdict=verdict,
            at_once=False,
        )


def of_windows(
    rows: dict[str, list[dict[str, Any]]], group: str, members: int, state: str, moved_us: int
) -> None:
    """A window with classic members, and others as far as the group came."""
    seen = [(members, 0)]
    if state != "not begun":
        seen.append((0, members))
    if state == "moving":
        seen.append((members // 2 + 1, members // 2 + 1))
    if state == "moved back":
        seen.append((members, 0))
    for at, (classic, translated) in enumerate(seen):
        from_us = moved_us + (at - 1) * HOUR_US
        counts = dict.fromkeys(progress.COUNTED, 1)
        add(
            rows,
            "progress.windows",
            group=group,
            from_us=from_us,
            until_us=from_us + 60_000_000,
            mode="translate",
            translated_members=translated,
            classic_members=classic,
            consumer_members=0,
            events=9,
            batch=0,
            **counts,
        )


def of_rebalances(
    rows: dict[str, list[dict[str, Any]]], chance: random.Random, group: str, state: str, moved_us: int
) -> str:
    """Joins before the move and, if there was one, after it. Return how the stops of the member that stays compare.

    One group in seven has too few of them after its move.
    """
    before = [round(chance.lognormvariate(7.5, 0.8) * 1000) for _ in range(5)]
    after = []
    if state != "not begun":
        factor = 2.0 if hash_of(group) % 20 == 0 else 0.05
        after = [round(one * factor) for one in before][: 2 if hash_of(group) % 7 == 0 else 5]
    number = 0
    for protocol, took, first_us in (
        ("classic", before, moved_us - 8 * HOUR_US),
        ("translated", after, moved_us + 3 * HOUR_US),
    ):
        for at, us in enumerate(took):
            number += 1
            from_us = first_us + at * HOUR_US
            about = {
                "mode": "translate",
                "protocol": protocol,
                "software": "librdkafka/2.8.0",
                "client_id": "c",
                "reason": "",
            }
            joins = {
                "member": f"m{number}",
                "kind": "state_changed",
                "replica": "r",
                "boot": "b",
                "seq": number,
            }
            states = {"previous_state": "", "state": "CompletingRebalance"}
            add(rows, "progress.transitions", group=group, time_us=from_us, **about, **joins, **states)
            span = {"from_us": from_us, "until_us": from_us + us}
            add(
                rows,
                "progress.pauses",
                group=group,
                member="m0",
                ended_by="Stable",
                first=False,
                **span,
                **about,
            )
            add(rows, "progress.convergences", group=group, members=1, pauses=1, **span)
    if state != "moved":
        return "not settled"
    if len(after) < ENOUGH:
        return "too_few"
    return "longer" if after[0] > before[0] else "shorter"


def hash_of(group: str) -> int:
    return sum(group.encode())


def of_audit(rows: dict[str, list[dict[str, Any]]], groups: int) -> None:
    for number in range(6):
        add(
            rows,
            "audit.processes",
            replica=f"epochgate-{number}",
            boot="b1",
            first_us=START_US,
            last_us=START_US + 40 * HOUR_US,
            last_seq=groups * 10,
            events=groups * 10,
            duplicates=0,
        )
    span = {"from_us": START_US, "to_us": START_US + HOUR_US}
    add(rows, "audit.losses", replica="epochgate-5", boot="b1", first_seq=100, last_seq=111, **span)
    known = {"first_seq": 100, "last_seq": 111, "first_us": START_US, "last_us": START_US + HOUR_US}
    add(
        rows,
        "audit.unfinished",
        file="_epochgate-5.b1.7.jsonl",
        gone=True,
        replica="epochgate-5",
        boot="b1",
        unread=12,
        size=4096,
        changed_ms=START_US // 1000,
        **known,
    )
    for number in range(0, groups, 3):
        from_us = START_US + number * 1000
        add(
            rows,
            "audit.gaps",
            group=f"g{number}",
            topic="orders",
            partition=0,
            from_us=from_us,
            until_us=from_us + 1000 * (1 + number % 900),
            cause="revoked" if number % 2 else "left",
        )
