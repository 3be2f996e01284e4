"""Writes how many random scenarios were compared with Kafka into docs/reference/embedded-coordinator.md.

The result is in docs/evidence/coordinator-random.json, where ``python -m tests.coordinator --record`` puts it.
``python -m tools.recorded_tables`` writes the page.
"""

from tools.recorded import DOCS, EVIDENCE, Entry, Recorded, by_kafka, markdown, one_by_one


def table(run: Entry) -> str:
    """Return a row for each kind of group, their sum, and the kinds of differences with the first scenarios."""
    kinds = run["scenarios"]
    rows = [(kind, f"{one['played']:,}", f"{one['differ']:,}") for kind, one in kinds.items()]
    played, differ = (sum(one[name] for one in kinds.values()) for name in ("played", "differ"))
    rows.append(("all", f"**{played:,}**", f"**{differ:,}**"))
    differences = "".join(
        f"\n- {len(seeds)} of `{kind}`: {', '.join(seeds[:5])}" for kind, seeds in run["differences"].items()
    )
    return markdown(("group", "scenarios", "that differ"), rows) + (
        f"\n{run['steps']:,} answers and {run['records']:,} records are the same; Kafka played"
        f" {run['scenarios_an_hour']:,} scenarios an hour.{differences}\n"
    )


def _title(run: Entry) -> str:
    return f"Kafka {run['kafka']}, commit `{run['commit']}`, {run['date']} (`{run['command']}`):"


RUNS = Recorded(
    EVIDENCE / "coordinator-random.json",
    DOCS / "reference" / "embedded-coordinator.md",
    "random scenarios",
    by_kafka,
    one_by_one(_title, table),
)
