"""Writes what became of one consumer's many commits into docs/evidence/performance.md.

The runs are in docs/evidence/commits.json, where ``python -m benchmarks.commits --record`` puts them;
``python -m tools.recorded_tables`` writes the page.
"""

from tools.recorded import EVIDENCE, Entry, Recorded, by_kafka, one_by_one, title

HEAD = (
    "| entry | accepted | refused | lost | until the last answer | a second | longest wait | proxy's CPU a commit |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)


def table(run: Entry) -> str:
    """Return a row for each consumer."""
    return HEAD + "".join(map(row, run["rows"]))


def row(consumer: Entry) -> str:
    """Return what became of one consumer's commits."""
    errors = ", ".join(f"**{count:,} {name}**" for name, count in consumer["errors"].items()) or "0"
    answers = consumer["accepted"] + sum(consumer["errors"].values())
    cpu_us = consumer["cpu_s"] * 1e6 / consumer["commits"]
    lost = f"**{consumer['lost']}**" if consumer["lost"] else "0"
    return (
        f"| {consumer['entry']} | {consumer['accepted']:,} of {consumer['commits']:,} | {errors} | {lost} "
        f"| {consumer['seconds']:.1f} s | {answers / consumer['seconds']:,.0f} | {consumer['longest_s']:.1f} s "
        f"| {f'{cpu_us:.0f} µs' if cpu_us else ''} |\n"
    )


RUNS = Recorded(
    EVIDENCE / "commits.json", EVIDENCE / "performance.md", "commits", by_kafka, one_by_one(title, table)
)
