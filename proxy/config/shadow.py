"""The ``shadow`` section of the configuration: what observed groups would get from the new protocol."""

from typing import Annotated

from msgspec import Meta

from proxy.config.section import Section


class Shadow(Section, frozen=True, kw_only=True):
    """What is told beforehand of a move (docs/explanation/shadow.md). It never holds up a call."""

    enabled: Annotated[
        bool,
        Meta(
            description="Compute for each group under `observe` what the new protocol's assignor would give it. Needs "
            "`metrics.ask_brokers_every_s`."
        ),
    ] = True
    processor_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of one processor core that each process may use for it, on average.",
        ),
    ] = 0.05
    max_members: Annotated[
        int,
        Meta(
            ge=1, description="Members of the largest group that is computed; of a larger one that is said."
        ),
    ] = 500
    max_partitions: Annotated[
        int,
        Meta(ge=1, description="Partitions of all topics of the largest group that is computed, likewise."),
    ] = 5_000
