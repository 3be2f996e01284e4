"""How large and how long a demo is, and the steps that it consists of."""

import msgspec

from proxy.demo.display_model import Step

FIRST_CONSUMERS = 3
"""Consumers that each group begins with."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a demo. Both groups are given the same."""

    partitions: int = 8
    records_per_second: float = 100.0
    work_s: float = 1.0
    """How long each consumer works on a batch of records on average, as one that writes to a database does."""
    pause_s: float = 4.0
    """Time to look at each state before the next step."""
    assignor: str = "roundrobin"
    """The consumers' own choice (``partition.assignment.strategy``)."""
    session_timeout_ms: int = 6_000
    """The shortest that brokers allow by default (``group.min.session.timeout.ms``)."""
    heartbeat_interval_ms: int = 2_000
    """A third of the session timeout, as Kafka recommends."""


START = Step(
    "Three consumers start in each group",
    "They are the same unmodified program with the same settings; only the address that they connect to differs. "
    "Those of the classic group talk to the brokers, the others to Epochgate, which makes each of them "
    "a member of the new protocol (KIP-848).",
)
JOIN = Step(
    "A fourth consumer joins each group",
    "Classic: every consumer stops when it has done its batch, and waits until all the others have joined again "
    "(unless their assignor is cooperative). Epochgate: the broker takes only the partitions that the newcomer "
    "gets; a consumer that keeps its partitions is not even told, and nobody waits for another.",
)
LEAVE = Step(
    "One consumer leaves each group, in an orderly way",
    "Its partitions go to those that remain.",
)
KILL = Step(
    "One consumer of each group is killed (kill -9)",
    "It says goodbye to nobody, so its partitions are not read until its session timeout has passed, with "
    "either protocol. What counts is what happens to the others.",
)
END = Step(
    "No more records are produced",
    "Both groups read what is left; then the results are compared.",
)
MEASURED = {JOIN: "join", LEAVE: "leave", KILL: "kill"}
STEPS = (START, JOIN, LEAVE, KILL, END)
