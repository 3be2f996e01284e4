"""The thresholds of a rule's gates (``abort_if``), and those that the policy leaves out: what stops the move of a
group by steps, and takes it back.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0)]


class AbortIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much worse a group may become by its move, beyond what it was like before and what a step itself causes.

    Each threshold is judged over three windows of ten seconds (:mod:`translation.rollout.gates`).
    """

    lag: Annotated[
        _Count | None,
        Meta(
            description="Records that the group's lag may grow by. The brokers are asked by the account of "
            "`fleet.kafka`, so without `fleet` this is refused. `null`: the lag is not judged."
        ),
    ] = None
    unowned_s: Annotated[
        _Count | None,
        Meta(
            description="Seconds a minute that partitions may be without an owner, summed over all of them: one that "
            "nobody owns counts 60. `null`: not judged."
        ),
    ] = 45
    commit_errors: Annotated[
        _Count | None,
        Meta(
            description="Refused commits a minute; one a second of each member and error counts. `null`: not judged."
        ),
    ] = 10
    rejoins: Annotated[
        _Count | None,
        Meta(
            description="JoinGroups a minute. Not counted: one of each member that a step moves, and those of classic "
            "members that rejoin because the membership of the group changed. `null`: not judged."
        ),
    ] = 20
    pause_p99_ms: Annotated[
        _Count | None,
        Meta(
            description="Milliseconds from when a client gives up all its partitions until it has its next "
            "assignment, the 99th percentile of a window. `null`: not judged."
        ),
    ] = 10_000
    disconnects: Annotated[
        _Count | None,
        Meta(
            description="Connections of members a minute that ended although the member had not left. `null`: not "
            "judged."
        ),
    ] = 10
