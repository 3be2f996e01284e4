"""The tables of docs/evidence/outages.md are made from what benchmarks/outage.py recorded."""

from dataclasses import replace

from tools import outage_table

STRAIGHT = {
    "kind": "java eager static",
    "way": "straight",
    "owners_again_s": 2.0,
    "rejoins": 1,
    "read_twice": 4,
    "lost": 0,
    "two_owners": 0,
    "fatal": 0,
}
SOLE = STRAIGHT | {"way": "sole process"}
OUTAGE = {
    "scope": "cluster",
    "away_s": 15.0,
    "away_for_s": 21.4,
    "commit": "abcdef0",
    "date": "2026-11-28",
    "kafka": "4.4.0",
    "load": 7.5,
    "groups": [STRAIGHT, SOLE],
}
BLANK = "<!-- outages -->\nold\n<!-- /outages -->\n"


def of(**sole: object) -> str:
    """The line of a group that went through the only process so."""
    return outage_table.table(OUTAGE | {"groups": [STRAIGHT, SOLE | sole]}).splitlines()[2]


def test_the_ways_of_a_kind_are_beside_each_other():
    cell = "2.0 s, 1 rejoins, 4 twice"
    assert f"| java eager static | {cell} | {cell} |" in outage_table.OUTAGES.written(BLANK, [OUTAGE])


def test_what_was_measured_is_above_its_table():
    title = outage_table.title(OUTAGE)
    assert "The whole cluster for 15 s**, back after 21.4 s" in title
    assert "--scope cluster --away-s 15`, Kafka 4.4.0, commit `abcdef0`, 2026-11-28, load 7.5" in title


def test_what_straight_at_kafka_does_not_have_is_bold():
    assert "| 5.0 s, 1 rejoins, 4 twice |" in of(owners_again_s=5.0)
    assert "| **5.1 s**, 1 rejoins, 4 twice |" in of(owners_again_s=5.1)
    assert "| **never**, 1 rejoins, 4 twice |" in of(owners_again_s=None)
    assert "4 twice, **1 lost**, **1 two owners**, **2 fatal** |" in of(lost=1, two_owners=1, fatal=2)


def test_what_straight_at_kafka_has_too_is_not_bold():
    straight = STRAIGHT | {"owners_again_s": None, "fatal": 1}
    written = outage_table.table(OUTAGE | {"groups": [straight, straight | {"way": "sole process"}]})
    assert "**" not in written


def test_an_outage_takes_the_place_of_that_of_the_same_scope_and_duration(tmp_path):
    outages = replace(outage_table.OUTAGES, file=tmp_path / "outages.json")
    log, later = OUTAGE | {"scope": "log"}, OUTAGE | {"load": 1.0}
    for outage in (log, OUTAGE, OUTAGE | {"away_s": 5.0}, later):
        outages.keep(outage)
    assert outages.read() == [OUTAGE | {"away_s": 5.0}, later, log]
