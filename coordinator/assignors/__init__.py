"""Server-side assignors, as Kafka 4.4 ships them: ``uniform`` and ``range``.

Neither looks at racks: Kafka 4.4 hands them the racks of members and partitions, but both ignore them; a change of
racks only makes the group compute its assignment anew. ``uniform`` is sticky; ``range`` is not: it follows from the
sorted members alone. Both are pure functions of what :class:`~coordinator.assignors.spec.GroupSpec` holds.
"""

from coordinator.assignors.range_assignor import assign_ranges
from coordinator.assignors.spec import AssignmentImpossible, Assignor, GroupSpec, MemberSpec
from coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The assignors by name."""

__all__ = ["ASSIGNORS", "AssignmentImpossible", "Assignor", "GroupSpec", "MemberSpec"]
