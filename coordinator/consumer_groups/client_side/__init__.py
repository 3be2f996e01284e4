"""An experiment: KIP-848's client-side assignors, with which a member of the group computes the assignment.

No broker of Kafka has them. It is off unless ``experimental_client_assignors`` of
:class:`~coordinator.config.CoordinatorConfig` is set. ``docs/explanation/client-side-assignors.md`` says what the KIP
leaves open and what was decided.

Theory of operation. While the group epoch is ahead of the assignment epoch and all members support one client-side
assignor (:mod:`choice`), the group has a *computation* (:mod:`computation`), which no record mentions:

    needed --(a heartbeat of any member)--> chosen --(its own heartbeat: ShouldComputeAssignment)--> told
    told --(ConsumerGroupPrepareAssignment)--> prepared, for the group epoch of that moment
    prepared --(ConsumerGroupInstallAssignment, valid for what was prepared)--> installed, as the target of that epoch
    chosen, told, prepared --(timeout, or its member cannot compute any more)--> needed, of another member

An installed target whose epoch is older than the group's leaves a computation needed at once. A coordinator that
starts has no computation: the next heartbeat finds that one is needed. A target changes by a valid install and by
nothing else, except where a member's own part goes with it, or is inherited by its instance id.
"""
