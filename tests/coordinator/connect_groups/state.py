"""All that the log says of groups, as plain values that can be compared."""

from collections.abc import Mapping
from typing import Any

from coordinator.connect_groups.group import ConnectGroup


def state_of(groups: Mapping[str, ConnectGroup]) -> dict[str, Any]:
    return {
        group_id: (
            group.group_epoch,
            group.assignment_epoch,
            dict(group.target),
            group.config_offset,
            group.configured,
            list(group.members.values()),
            dict(group.owners),
        )
        for group_id, group in groups.items()
    }
