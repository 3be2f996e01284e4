"""Server-side assignors, as Kafka 4.4 ships them: ``uniform`` and ``range``, and ``simple`` of share groups.

None looks at racks, as in Kafka 4.4, which gives the first two the racks of members and partitions; a change of racks
only makes the group compute its assignment anew. ``uniform`` and ``simple`` are sticky. ``range`` is not: its result
follows from the sorted members alone. ``simple`` may give a partition to several members. All are pure functions of a
:class:`~coordinator.assignors.spec.GroupSpec`.
"""

from coordinator.assignors.range_assignor import assign_ranges
from coordinator.assignors.simple import assign_shared
from coordinator.assignors.spec import AssignmentImpossible, Assignor, GroupSpec, MemberSpec
from coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The assignors of consumer groups by name."""
SHARE_ASSIGNOR = "simple"
"""The only assignor of share groups."""

__all__ = [
    "ASSIGNORS",
    "SHARE_ASSIGNOR",
    "AssignmentImpossible",
    "Assignor",
    "GroupSpec",
    "MemberSpec",
    "assign_shared",
]
