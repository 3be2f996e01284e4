"""The uniform assignor: all members get the same number of partitions, and keep as many as they can."""

from coordinator.assignors.spec import GroupAssignment, GroupSpec
from coordinator.assignors.uniform_heterogeneous import assign_heterogeneous
from coordinator.assignors.uniform_homogeneous import assign_homogeneous


def assign_uniformly(group: GroupSpec) -> GroupAssignment:
    """Assign every partition of every subscribed topic that has subscribers."""
    if not group.members:
        return {}
    return assign_homogeneous(group) if group.is_homogeneous else assign_heterogeneous(group)
