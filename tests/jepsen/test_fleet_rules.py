"""Each rule of a fleet finds a planted violation, and nothing in a good history. Needs no Kafka."""

import json

import pytest

from tests.jepsen.test_check import Run


@pytest.fixture
def run(tmp_path):
    """Return a fleet's run: B is killed alone at 30 s, C has its partition 11.4 s later, reads on and commits."""
    run = Run(tmp_path)
    about = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**about, "fleet": True}))
    run.produce(0, 1)
    run.assigned("B", 1)
    run.read("B", 2, 0)
    run.committed("B", 3, 1)
    run.say("faults", 30, "kill consumer alone", victim="B", process="B")
    run.say("B", 30, "killed")
    return run


def test_a_recovery_in_time_is_fine(run):
    _taken(run, 41.4)
    assert run.verdict().violations == []


def test_a_late_recovery_is_found(run):
    _taken(run, 41.6)
    assert "only after 11.6 s, not 11.5 s" in run.verdict().violations[0]


@pytest.mark.parametrize(("at_s", "judged"), [(19.9, True), (20.1, False), (41, False), (41.6, True)])
def test_a_recovery_beside_another_fault_is_not_judged(run, at_s, judged):
    run.fault(at_s, "kill proxy")
    _taken(run, 45)
    assert len(run.verdict().violations) == judged


def test_partitions_that_nobody_takes_are_found(run):
    found = run.verdict().violations
    assert "B was killed, and its partitions never had owners again" in found
    assert "t-0 has no owner at the end" in found


def test_two_that_act_with_accepted_commits_are_found(run):
    _taken(run, 41)
    run.committed("C", 43, 2)
    run.produce(2)
    run.read("A", 44, 2)
    run.committed("A", 45, 3)
    assert not any("A had read and committed" in found for found in run.verdict().violations)
    run.produce(3)
    run.read("C", 46, 3)
    run.committed("C", 47, 4)
    assert any("committed 4 after A had read and committed 3" in found for found in run.verdict().violations)


def test_a_commit_whose_answer_came_late_is_no_act(run):
    run.produce(2)
    run.read("A", 40, 2)
    _taken(run, 41)
    run.committed("C", 43, 2)
    run.committed("A", 45, 3)
    run.produce(3)
    run.read("C", 46, 3)
    run.committed("C", 47, 4)
    assert not any("read and committed" in found for found in run.verdict().violations)


@pytest.mark.parametrize(("at_s", "violations"), [(89, 0), (91, 1)])
def test_a_group_that_does_not_settle_is_found(run, at_s, violations):
    run.fault(30, "kill proxy")  # so the kill itself is not judged
    _taken(run, at_s)
    assert len(run.verdict().violations) == violations


def _taken(run, at_s):
    run.assigned("C", at_s)
    run.read("C", at_s + 0.5, 1)
