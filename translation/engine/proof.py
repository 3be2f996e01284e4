"""Whether a step, or a group, is proven for long enough that the next may begin: pure, from the record of its proof.

One replica verifies the journal (docs/how-to/live-proof.md) and writes what it finds for groups whose rule asks for it.
No record, one that has grown old, or one that says less than the rule asks for: not proven. A rule can be told to go on
all the same, by a text that says who wants it and why; it is recorded in the move.
"""

from translation.fleet.group_records import Proof, StoredGroup
from translation.policy.policy import Rule

STALE_MS = 180_000
"""A record that is older, by the log's clock, says nothing any more: it is written anew at least every minute."""

WRITE_EVERY_MS = 60_000
"""A record that says the same is written so often, and one that says something else at once, but for its length."""


def why_not_proven(rule: Rule, stored: StoredGroup | None, since_ms: int, now_ms: int) -> str:
    """Why what happened since ``since_ms`` is not proven for as long as the rule asks; empty if it is.

    Times are milliseconds by the log's clock.
    """
    if not rule.proof_s:
        return ""
    proof = None if stored is None else stored.record.proof
    if stored is None or proof is None:
        return "no replica verifies it"
    if now_ms - stored.appended_ms > STALE_MS:
        return f"verified {(now_ms - stored.appended_ms) // 1000} s ago for the last time"
    if proof.violated:
        return "a partition had two owners"
    until_ms = stored.appended_ms - proof.ago_ms
    proven_ms = max(0, until_ms - max(since_ms, until_ms - proof.clean_ms))
    if proven_ms >= rule.proof_s * 1000:
        return ""
    because = f" ({proof.why})" if proof.why else ""
    return f"proven for {proven_ms // 1000} of {rule.proof_s} s{because}"


def is_to_be_written(stored: StoredGroup | None, proof: Proof, now_ms: int) -> bool:
    """Whether a proof is worth a record: it is the first, says something new, or the one before is a minute old."""
    before = None if stored is None else stored.record.proof
    if stored is None or before is None or now_ms - stored.appended_ms >= WRITE_EVERY_MS:
        return True
    was_cut = proof.clean_ms < before.clean_ms
    return proof.violated != before.violated or was_cut
