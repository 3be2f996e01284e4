"""A fence without a reason is found, and one with a reason is not. Needs no Kafka."""

import pytest

from tests.jepsen.test_check import SESSION_S, Run

STATIC_CONSUMER_FENCED = "_FATAL: Fatal error: Broker: Static consumer fenced by other consumer"


@pytest.fixture
def run(tmp_path):
    """Return a run in which S.1 reads and commits until 6 s."""
    run = Run(tmp_path)
    run.produce(0, 1)
    run.assigned("S.1", 1)
    run.read("S.1", 2, 0)
    run.committed("S.1", 3, 1)
    run.read("S.1", 5, 1)
    run.committed("S.1", 6, 2)
    return run


def fenced(run, at_s, who="S.1", kind="error"):
    fields = {"fatal": True} if kind == "error" else {}
    run.say(who, at_s, kind, error=STATIC_CONSUMER_FENCED, **fields)


@pytest.mark.parametrize("kind", ["error", "failed"])
@pytest.mark.parametrize(("silent_s", "violations"), [(SESSION_S, 0), (SESSION_S - 0.1, 1)])
def test_a_client_without_a_rival_may_be_fenced_only_after_its_session(run, kind, silent_s, violations):
    fenced(run, 6 + silent_s, kind=kind)
    verdict = run.verdict()
    assert len([found for found in verdict.violations if "no rival" in found]) == violations
    assert verdict.notes["consumers fenced after their session had passed"] == 1 - violations


def test_a_commit_that_waited_for_the_coordinator_does_not_bring_a_session_back(run):
    """As in seed 6: it was acknowledged a moment before the fence, after 34 s without a word."""
    run.committed("S.1", 6.9 + SESSION_S, 2)
    fenced(run, 7 + SESSION_S)
    assert run.verdict().violations == []


def test_a_client_that_has_joined_again_since_has_no_excuse(run):
    run.assigned("S.1", 7 + SESSION_S)
    fenced(run, 8 + SESSION_S)
    assert len(run.verdict().violations) == 1


def test_a_silence_long_ago_is_no_excuse(run):
    for at_s in range(6 + SESSION_S, 8 + 4 * SESSION_S):
        run.committed("S.1", at_s, 2)
    fenced(run, 8 + 4 * SESSION_S)
    assert len(run.verdict().violations) == 1


@pytest.mark.parametrize(
    ("rival", "starts_s", "violations"), [("S.2", 6.5, 0), ("S.0", 0.5, 1), ("T.2", 6.5, 1)]
)
def test_a_newer_process_of_the_same_place_is_a_reason(run, rival, starts_s, violations):
    run.say(rival, starts_s, "started", client="confluent-kafka")
    fenced(run, 7)
    assert len(run.verdict().violations) == violations


def test_another_fatal_error_is_no_fence(run):
    run.say("S.1", 7, "error", error="_FATAL: out of memory", fatal=True)
    run.say("S.1", 7.1, "error", error="Static consumer fenced: not fatal here", fatal=False)
    assert run.verdict().violations == []
