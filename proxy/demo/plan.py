"""The sizes and times of a demo, and its steps."""

import msgspec

from proxy.demo.display_model import Step

FIRST_CONSUMERS = 3
"""Consumers that each group begins with."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a demo, the same for both groups."""

    partitions: int = 8
    records_per_second: float = 100.0
    work_s: float = 1.0
    """Average seconds that a consumer spends on a batch, like one that writes to a database."""
    pause_s: float = 4.0
    """Seconds to look at each state before the next step."""
    assignor: str = "roundrobin"
    """The consumers' ``partition.assignment.strategy``."""
    session_timeout_ms: int = 6_000
    """The shortest that brokers allow by default (``group.min.session.timeout.ms``)."""
    heartbeat_interval_ms: int = 2_000
    """A third of the session timeout, as Kafka recommends."""


START = Step(
    "Three consumers start in each group",
    "All six run the same unmodified program with the same settings; only the address they connect to differs. "
    "The classic group connects to the brokers, the other group to Epochgate, which makes each consumer "
    "a member of the new protocol (KIP-848).",
)
JOIN = Step(
    "A fourth consumer joins each group",
    "Classic: every consumer stops after its current batch and waits until all others have rejoined "
    "(unless their assignor is cooperative). Epochgate: the broker revokes only the partitions that the new consumer "
    "gets. A consumer that keeps its partitions sees no callback, and no consumer waits for another.",
)
LEAVE = Step(
    "One consumer leaves each group",
    "It closes normally (LeaveGroup), and its partitions go to the remaining consumers.",
)
KILL = Step(
    "One consumer of each group is killed (kill -9)",
    "It can't send a LeaveGroup, so nobody reads its partitions until its session timeout has passed, with "
    "either protocol. What matters is what happens to the other consumers.",
)
END = Step(
    "The producer stops",
    "Both groups read the remaining records; then the results are compared.",
)
MEASURED = {JOIN: "join", LEAVE: "leave", KILL: "kill"}
STEPS = (START, JOIN, LEAVE, KILL, END)
