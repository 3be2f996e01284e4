"""The sizes and times of a demo, and its steps."""

import msgspec

from proxy.demo.display_model import Step

FIRST_CONSUMERS = 3
"""Consumers that each group begins with."""
COOPERATIVE = "cooperative-sticky"
"""librdkafka sends user data with it, and brokers convert no group in place whose members do."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a demo, the same for both groups."""

    partitions: int = 8
    records_per_second: float = 100.0
    work_s: float = 1.0
    """Average seconds that a consumer spends on a batch, like one that writes to a database."""
    pause_s: float = 2.0
    """Seconds to look at each state before the next step."""
    assignor: str = "roundrobin"
    """The consumers' ``partition.assignment.strategy``."""
    session_timeout_ms: int = 6_000
    """The shortest that brokers allow by default (``group.min.session.timeout.ms``)."""
    heartbeat_interval_ms: int = 2_000
    """A third of the session timeout, as Kafka recommends."""


START = Step(
    "Three consumers start in each group",
    "All six run the same unmodified program with the same settings; only the address they connect to differs: the "
    "brokers, or Epochgate. Its policy is `observe`: it passes all calls through, and both groups are classic.",
)
JOIN = Step(
    "A fourth consumer joins each group",
    "Every consumer stops after its current batch and waits until all others have rejoined (unless their assignor is "
    "cooperative).",
)
KILL = Step(
    "One consumer of each group is killed (kill -9)",
    "It can't send a LeaveGroup, so nobody reads its partitions until its session timeout has passed. What matters is "
    "what happens to the other consumers.",
)
DEPLOY = Step(
    "A deploy: one consumer after the other is replaced in each group",
    "Each closes normally (LeaveGroup), then its successor starts.",
)
MOVE = Step(
    "The group behind Epochgate moves to the new protocol, at work",
    "A preflight, then one line of policy. Epochgate converts each member in place at its next Heartbeat (KIP-848): "
    "under its own id, with all its partitions, and no client notices (with cooperative-sticky all join again: brokers "
    "do not convert its user data). The classic group stays as it is.",
)
JOIN_AFTER = Step(
    "Another consumer joins each group",
    "Classic: as before. Epochgate: the broker revokes only the partitions that the new consumer gets. A consumer that "
    "keeps its partitions sees no callback, and no consumer waits for another.",
)
KILL_AFTER = Step(
    "Another consumer of each group is killed (kill -9)",
    "With either protocol its partitions wait for its session timeout.",
)
DEPLOY_AFTER = Step(
    "Another deploy",
    "Again one consumer after the other is replaced in each group.",
)
BACK = Step(
    "The group moves back",
    "The line is taken out of the policy. The group is classic again when its last translated member has left the new "
    "protocol; that costs one ordinary rebalance.",
)
END = Step(
    "The producer stops",
    "Both groups read the remaining records; then the results are compared.",
)
MEASURED = {
    JOIN: "join",
    KILL: "kill",
    DEPLOY: "deploy",
    MOVE: "move",
    JOIN_AFTER: "join",
    KILL_AFTER: "kill",
    DEPLOY_AFTER: "deploy",
    BACK: "back",
}
STEPS = (START, *MEASURED, END)
