"""The checker finds each kind of planted violation in a log, and nothing in a good log. Needs no Kafka."""

import json

import pytest

from tests.jepsen import check
from tests.jepsen.history import History

S = 1_000_000_000
SESSION_S = 10


class Run:
    """A synthetic run: one partition, times in seconds."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {}
        about = {
            "seed": 1,
            "seconds": 60,
            "kafka": "none",
            "topic": "t",
            "session_timeout_ms": SESSION_S * 1000,
            "consumers": [],
        }
        (folder / "run.json").write_text(json.dumps(about))

    def say(self, who, at_s, event, **fields):
        line = {"event": event, "mono": int(at_s * S), "time": 0, **fields}
        self.lines.setdefault(who, []).append(line)

    def produce(self, *offsets):
        for offset in offsets:
            self.lines.setdefault("produced", []).append(
                {"partition": 0, "offset": offset, "value": f"v{offset}"}
            )

    def assigned(self, who, at_s):
        self.say(who, at_s, "assigned", partitions={"t": [0]}, incremental=True)

    def revoked(self, who, at_s, kind="revoked"):
        self.say(who, at_s, kind, partitions={"t": [0]}, incremental=True)

    def read(self, who, at_s, *offsets, values=None):
        values = values or [f"v{offset}" for offset in offsets]
        self.say(who, at_s, "records", topic="t", partition=0, offsets=list(offsets), values=values)

    def committed(self, who, at_s, offset, kind="committed"):
        self.say(who, at_s, kind, offsets={"t": {"0": offset}})

    def fault(self, at_s, kind, victim="a"):
        self.say("faults", at_s, kind, victim=victim)

    def verdict(self):
        for who in ("produced", "faults", *self.lines):
            lines = sorted(self.lines.get(who, []), key=lambda line: line.get("mono", 0))
            (self.folder / f"{who}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return check.judge(History.read(self.folder))


@pytest.fixture
def run(tmp_path):
    """Return a run without violations: A reads 0 and 1, commits, hands over to B, who reads 2."""
    run = Run(tmp_path)
    run.produce(0, 1, 2)
    run.assigned("A", 1)
    run.read("A", 2, 0, 1)
    run.committed("A", 3, 2)
    run.revoked("A", 4)
    run.assigned("B", 5)
    run.read("B", 6, 2)
    return run


def test_a_clean_handover_is_fine(run):
    verdict = run.verdict()
    assert verdict.violations == []


def test_two_owners_at_once_are_found(run):
    run.assigned("C", 5.5)
    (found,) = run.verdict().violations
    assert "t-0 had two owners" in found


def test_a_killed_consumer_owns_nothing_from_its_death_on(run):
    run.say("B", 7, "killed")
    run.assigned("C", 7.1)
    assert run.verdict().violations == []


def test_an_owner_before_the_death_of_the_one_before_is_found(run):
    run.say("B", 7, "killed")
    run.assigned("C", 6.9)
    assert len(run.verdict().violations) == 1


@pytest.mark.parametrize("ends", ["lost", "failed commit"])
def test_a_client_that_heard_nothing_for_its_session_timeout_has_left_its_contract(run, ends):
    run.assigned("C", 6 + SESSION_S)
    _end_late(run, ends)
    verdict = run.verdict()
    assert verdict.violations == []
    assert verdict.notes["overlaps with a client whose session had passed"] == 1


@pytest.mark.parametrize("ends", ["lost", "failed commit"])
def test_a_client_that_heard_something_within_its_session_timeout_has_not(run, ends):
    run.assigned("C", 6 + SESSION_S - 0.1)
    _end_late(run, ends)
    assert len(run.verdict().violations) == 1


@pytest.mark.parametrize(("silent_s", "violations"), [(SESSION_S, 0), (SESSION_S - 0.1, 2)])
def test_a_client_that_stood_still_for_its_session_timeout_may_read_what_its_successor_has_read(
    run, silent_s, violations
):
    run.produce(3)
    run.assigned("C", 6 + silent_s)
    run.read("C", 6.1 + silent_s, 3)
    run.read("B", 6.2 + silent_s, 3)
    _end_late(run, "lost")
    verdict = run.verdict()
    assert len(verdict.violations) == violations, verdict.violations
    assert verdict.notes["records read twice after the second reader's session had passed"] == (
        not violations
    )


@pytest.mark.parametrize(("acknowledged", "violations"), [(False, 0), (True, 1)])
def test_records_that_a_client_reads_after_its_session_do_not_bring_it_back_and_a_commit_does(
    run, acknowledged, violations
):
    run.read("B", 6 + SESSION_S, 2)
    if acknowledged:
        run.committed("B", 6.1 + SESSION_S, 3)
    run.assigned("C", 6.2 + SESSION_S)
    _end_late(run, "failed commit")
    assert len([found for found in run.verdict().violations if "two owners" in found]) == violations


def test_a_client_that_gives_up_late_in_an_orderly_way_has_no_excuse(run):
    run.assigned("C", 7 + 2 * SESSION_S)
    run.revoked("B", 8 + 2 * SESSION_S)
    assert len(run.verdict().violations) == 1


def test_a_failed_commit_of_another_partition_says_that_the_membership_is_lost_too(run):
    run.assigned("C", 6 + SESSION_S)
    run.say("B", 7.5 + SESSION_S, "commit_failed", offsets={"t": {"1": 5}})
    run.revoked("B", 8 + SESSION_S)
    assert run.verdict().violations == []


@pytest.mark.parametrize(
    ("client", "silent_s", "commits", "violations"),
    [
        ("aiokafka", SESSION_S, False, 0),
        ("kafka-python", SESSION_S, False, 1),
        ("aiokafka", SESSION_S - 0.1, False, 1),
        ("aiokafka", SESSION_S, True, 1),
    ],
)
def test_aiokafka_calls_a_lost_membership_a_revocation(run, client, silent_s, commits, violations):
    run.say("B", 4.5, "started", client=client)
    run.assigned("C", 6 + silent_s)
    if commits:
        run.committed("B", 7 + silent_s, 3)
    run.revoked("B", 8 + silent_s)
    assert len([found for found in run.verdict().violations if "two owners" in found]) == violations


def _end_late(run, ends):
    if ends == "lost":
        run.revoked("B", 8 + SESSION_S, "lost")
    else:
        run.committed("B", 7.5 + SESSION_S, 3, "commit_failed")
        run.revoked("B", 8 + SESSION_S)


def test_a_lost_record_is_found(run):
    run.produce(3)
    assert run.verdict().violations == ["t-0@3 was never read"]


def test_a_record_that_nobody_wrote_is_found(run):
    run.read("B", 7, 3)
    assert "which was never acknowledged" in run.verdict().violations[0]


def test_a_record_with_another_value_is_found(run):
    run.produce(3)
    run.read("B", 7, 3, values=["another"])
    assert len(run.verdict().violations) == 2  # it was not read, and something else was


def test_a_committed_record_that_is_read_again_is_found_whatever_crashed(run):
    run.say("A", 4.5, "killed")
    run.fault(4.2, "kill broker", "broker")
    run.read("B", 5.9, 1)
    assert "A had committed 2 before" in run.verdict().violations[0]


def test_a_record_twice_in_one_ownership_is_found(run):
    run.read("B", 7, 2)
    assert "twice in one ownership" in run.verdict().violations[0]


def _read_again(run):
    """Let C begin again at the record that B has read."""
    run.assigned("C", 20)
    run.read("C", 21, 2)


def test_a_record_that_is_given_up_without_a_commit_and_read_again_is_found(run):
    run.revoked("B", 8)
    _read_again(run)
    assert "no crash came between" in run.verdict().violations[0]


@pytest.mark.parametrize("crash", ["killed", "died", "failed"])
def test_a_crash_of_the_first_reader_excuses_it(run, crash):
    run.say("B", 8, crash)
    _read_again(run)
    assert run.verdict().violations == []


@pytest.mark.parametrize(
    "fault",
    [None, "kill consumer", "kill proxy", "move client", "kill broker", "stop broker", "stall"],
)
@pytest.mark.parametrize("ends", ["lost", "failed commit"])
def test_a_lost_membership_or_commit_is_an_excuse_only_in_a_fault_that_can_cut_it(run, fault, ends):
    if fault is not None:
        run.fault(6.5, fault)
    if ends == "lost":
        run.revoked("B", 8, "lost")
    else:
        run.committed("B", 7, 3, "commit_failed")
        run.revoked("B", 8)
    _read_again(run)
    expected = 1 if fault in {None, "kill consumer"} else 0
    assert len(run.verdict().violations) == expected


def test_a_fault_long_before_is_no_excuse(run):
    run.fault(0, "kill proxy")
    run.say("faults", 1, "healed", victim="a")
    run.revoked("B", 8 + 2 * SESSION_S, "lost")
    run.assigned("C", 50)
    run.read("C", 51, 2)
    assert len(run.verdict().violations) == 1


def test_a_fault_that_has_not_healed_is_still_there(run):
    run.fault(0, "kill proxy")
    run.say("faults", 8, "healed", victim="a")
    run.revoked("B", 8 + 2 * SESSION_S, "lost")
    run.assigned("C", 50)
    run.read("C", 51, 2)
    assert run.verdict().violations == []


def test_a_record_read_without_ever_owning_its_partition_and_again_by_its_owner_is_found(run):
    run.read("C", 6.5, 2)
    assert "one of them never owned" in run.verdict().violations[0]


def test_a_folder_without_records_proves_nothing(tmp_path):
    run = Run(tmp_path)
    run.assigned("A", 1)
    with pytest.raises(ValueError, match="nothing was shown"):
        run.verdict()


def test_the_program_says_passed_or_failed(run, capsys):
    run.verdict()
    assert check.main([str(run.folder)]) == 0
    assert "PASSED: 0 violations" in capsys.readouterr().out
    run.assigned("C", 5.5)
    run.verdict()
    assert check.main([str(run.folder)]) == 1
    printed = capsys.readouterr().out
    assert "VIOLATION t-0 had two owners" in printed
    assert "FAILED: 1 violations" in printed


def test_the_story_of_a_record_that_was_read_again_tells_who_had_the_partition_and_what_was_committed(run):
    run.read("B", 7, 1)
    verdict = run.verdict()
    told = list(check.report(History.read(run.folder), verdict))
    assert "VIOLATION t-0@1 by A and again by B: A had committed 2 before" in told
    story = [line.strip() for line in told[told.index("what happened to t-0:") + 1 : -1]]
    assert [line.split("  ")[1] for line in story] == [
        "A owns it",
        "A reads 1 to 1, not for the only time",
        "A commits 2",
        "A gives it up: revoked",
        "B owns it",
        "B reads 1 to 1, not for the only time",
    ]
