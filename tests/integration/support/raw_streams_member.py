"""A member of a streams group made by hand, a heartbeat at a time (KIP-1071)."""

import datetime as dt
import uuid
from typing import Any

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.streams_group_heartbeat.v0.request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)

from support import raw

_SUBTOPOLOGY = "0"
_LEAVES = -1
"""As a member epoch."""


class RawStreamsMember:
    """A member of a streams group with one subtopology that reads `topic`."""

    def __init__(self, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        self._connection = raw.to_coordinator(bootstrap, group, **options)
        self._connection.call(
            ApiVersionsRequest()
        )  # as every client does; before it the proxy observes nothing
        self._group = group
        self._topic = topic
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self._tasks: tuple[TaskIds, ...] = ()
        self._told: tuple[TaskIds, ...] | None = None

    def close(self) -> None:
        """Say nothing more."""
        self._connection.close()

    def beat(self) -> None:
        """A heartbeat, which says what the member has if that has changed."""
        joins = self.epoch == 0
        reports = joins or self._tasks != self._told
        subtopology = Subtopology(
            subtopology_id=_SUBTOPOLOGY,
            source_topics=(self._topic,),
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        answer = self._connection.call(
            StreamsGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.id,
                member_epoch=self.epoch,
                endpoint_information_epoch=0,
                rebalance_timeout=dt.timedelta(seconds=60) if joins else dt.timedelta(milliseconds=-1),
                topology=Topology(epoch=0, subtopologies=(subtopology,)) if joins else None,
                active_tasks=self._tasks if reports else None,
                standby_tasks=() if reports else None,
                warmup_tasks=() if reports else None,
                process_id=self.id if joins else None,
                client_tags=() if joins else None,
                task_offsets=None,
                task_end_offsets=None,
                shutdown_application=False,
            )
        )
        assert answer.error_code == 0, answer
        self._told = self._tasks
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._tasks = tuple(
                TaskIds(subtopology_id=one.subtopology_id, partitions=one.partitions)
                for one in answer.active_tasks
            )

    def leave(self) -> None:
        """Leave the group."""
        answer = self._connection.call(
            StreamsGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.id,
                member_epoch=_LEAVES,
                endpoint_information_epoch=0,
                active_tasks=None,
                standby_tasks=None,
                warmup_tasks=None,
                topology=None,
                process_id=None,
                client_tags=None,
                task_offsets=None,
                task_end_offsets=None,
                shutdown_application=False,
            )
        )
        assert answer.error_code == 0, answer
