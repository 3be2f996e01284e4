"""Decides which commits are in the journal and count for the gate ``commit_errors``: those that are refused, that set
an offset back, and now and then others.

Clients commit every few seconds, some after each record, so not every commit becomes an event. What is remembered is
the last offset that the broker accepted here for each partition, and when one was reported. Sans-IO: time is an
argument.
"""

from collections.abc import Callable, Iterable
from typing import Any

from protocol_codecs import ApiKey, ErrorCode, Uuid
from translation.actions import Event, EventKind, Request
from translation.partitions import TopicOffsets

COMMITS: frozenset[int] = frozenset({int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)})
"""The APIs of commits."""

EVERY_S = 60.0
"""An accepted commit of a partition is reported if none was for so long. It says from where a later one may go back,
also to whoever reads the journals of several processes."""

REFUSED_EVERY_S = 1.0
"""So often a member's refused commits with the same error are reported: some clients try again at once, for ever."""

PARTITIONS_LIMIT = 100_000
"""Partitions of groups that are remembered; of further ones the oldest are forgotten."""

_REFUSALS_LIMIT = 10_000
_LONGEST_TEXT = 255
_TXN_OFFSET_COMMIT = int(ApiKey.TXN_OFFSET_COMMIT)
_UNKNOWN = -1

_Place = tuple[str, int]
"""Topic and partition."""


def codes_of(response: Any) -> set[int]:
    """The codes of all partitions in a commit's response."""
    return {partition.error_code for topic in response.topics for partition in topic.partitions}


class CommitWatch:
    """The commits of one process's clients."""

    def __init__(self, *, limit: int = PARTITIONS_LIMIT) -> None:
        self._limit = limit
        self._accepted: dict[tuple[str, str, int], tuple[int, float]] = {}
        """By group, topic and partition: the last offset, and when one was reported."""
        self._refused: dict[tuple[str, str, int], float] = {}
        """By group, member and error code: when it was reported."""

    def answered(
        self, now: float, request: Request, response: Any, protocol: str, name_of: Callable[[Uuid], str]
    ) -> list[Event]:
        """A commit was answered with this response; return what is to be reported, in seconds of ``now``.

        ``protocol`` is how the member takes part, ``name_of`` the name of a topic, empty if it is not known. Offsets in
        a transaction count for nothing before it ends, which is not seen here: of those, only refusals are reported.
        """
        message = request.message
        if max(len(message.group_id), len(message.member_id)) > _LONGEST_TEXT:
            return []
        codes = {
            (topic.name or topic.topic_id, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        accepted: list[tuple[_Place, int, int]] = []
        refused: dict[int, list[tuple[_Place, int, int]]] = {}
        for topic in message.topics:
            name = topic.name or name_of(topic.topic_id)
            for partition in topic.partitions:
                index, offset = partition.partition_index, partition.committed_offset
                code = codes.get((topic.name or topic.topic_id, index))
                if code is None:
                    continue  # the broker has not said that it accepted this one
                known = self._accepted.get((message.group_id, name, index), (_UNKNOWN, 0.0))
                if code != ErrorCode.NONE:
                    refused.setdefault(code, []).append(((name, index), offset, known[0]))
                elif (
                    name
                    and request.api_key != _TXN_OFFSET_COMMIT
                    and self._is_news(now, (message.group_id, name, index), offset)
                ):
                    accepted.append(((name, index), offset, known[0]))
        events = [
            _event(request, protocol, some, ErrorCode(code).name)
            for code, some in refused.items()
            if self._may_report(now, (message.group_id, message.member_id, code))
        ]
        return [*events, _event(request, protocol, accepted, "")] if accepted else events

    def _is_news(self, now: float, key: tuple[str, str, int], offset: int) -> bool:
        """Remember an accepted offset; return whether to report it."""
        before = self._accepted.get(key)
        if before is not None and offset >= before[0] and now - before[1] < EVERY_S:
            self._accepted[key] = offset, before[1]
            return False
        self._accepted.pop(key, None)  # the oldest reported are the first
        self._accepted[key] = offset, now
        if len(self._accepted) > self._limit:
            del self._accepted[next(iter(self._accepted))]
        return True

    def _may_report(self, now: float, key: tuple[str, str, int]) -> bool:
        if now - self._refused.get(key, -REFUSED_EVERY_S) < REFUSED_EVERY_S:
            return False
        if len(self._refused) >= _REFUSALS_LIMIT:
            self._refused.clear()
        self._refused[key] = now
        return True


def _event(request: Request, protocol: str, commits: Iterable[tuple[_Place, int, int]], reason: str) -> Event:
    message = request.message
    by_topic: dict[str, list[tuple[int, int, int]]] = {}
    for (topic, index), offset, before in commits:
        by_topic.setdefault(topic, []).append((index, offset, before))
    return Event(
        kind=EventKind.COMMITTED,
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        protocol=protocol,
        client_id=request.client_id,
        client_host=request.connection.client_host,
        software=request.connection.software,
        generation=message.generation_id_or_member_epoch,
        reason=reason,
        commits=tuple(
            TopicOffsets(topic, *(tuple(column) for column in zip(*some, strict=True)))
            for topic, some in by_topic.items()
        ),
    )
