"""Bounds the size of events before they are kept, logged, shown or written to the journal
(``visibility.id_max_chars``, ``partitions_of_event``).

Clients choose ids, and the topics and partitions they claim: a broker allows 32 KiB for each text and megabytes for a
JoinGroup. Every event is truncated here before any other code sees it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from proxy.config.schema import Visibility
from proxy.metrics.bounds import Bound
from proxy.shadow.view import ShadowView
from translation.actions import ConnectWorker, Event
from translation.partitions import TopicOffsets, TopicPartitions

TRUNCATED = "…"
"""Separates a truncated text from the hash that ends it."""

_HASH_BYTES = 8
_ENDING = 1 + 2 * _HASH_BYTES
_WORKER_TEXTS = ("url", "leader", "leader_url")
_TEXTS = ("group_id", "member_id", "instance_id", "client_id", "client_host", "software", "reason")


def truncate(text: str, most: int) -> str:
    """Return the text, or if it has more than ``most`` characters, its beginning and a hash of the whole.

    Different texts stay different: a short text that looks truncated gets a hash too.
    """
    looks_cut = len(text) >= _ENDING and text[-_ENDING] == TRUNCATED
    if len(text) <= most and not looks_cut:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
    return f"{text[: most - _ENDING]}{TRUNCATED}{digest}"


def bounded_shadow(shadow: ShadowView, most_chars: int, most_members: int) -> ShadowView:
    """Return the shadow of a group with long texts truncated, and without its members if they are more than these."""
    if len(shadow.of_members) > most_members:
        return msgspec.structs.replace(shadow, of_members=())
    members = tuple(
        msgspec.structs.replace(
            one,
            id=truncate(one.id, most_chars),
            client_id=truncate(one.client_id, most_chars),
            instance=None if one.instance is None else truncate(one.instance, most_chars),
        )
        for one in shadow.of_members
    )
    return msgspec.structs.replace(shadow, of_members=members)


class EventBounds:
    """Truncates events to the configured limits. Calls ``hit`` with each bound that was reached."""

    def __init__(self, limits: Visibility, hit: Callable[[Bound], None]) -> None:
        self._most = limits.id_max_chars
        self._partitions = limits.partitions_of_event
        self._hit = hit

    def accepts_group(self, group_id: str) -> bool:
        """Whether a group with this id may be kept and shown. Others appear in the log and the journal only."""
        if len(group_id) <= self._most:
            return True
        self._hit(Bound.GROUP_ID)
        return False

    def truncated(self, event: Event) -> Event:
        """Return the event with long texts truncated, and without its partitions if there are too many."""
        changes: dict[str, Any] = {}
        for name in _TEXTS:
            text = getattr(event, name)
            if not text or (len(text) <= self._most and TRUNCATED not in text):
                continue
            if (short := truncate(text, self._most)) is not text:
                changes[name] = short
                self._hit(Bound.TEXT)
        if event.worker is not None:
            self._bound_worker(changes, event.worker)
        if event.partitions:
            self._bound_partitions(changes, "partitions", event.partitions, ())
        if event.commits:
            self._bound_partitions(changes, "commits", event.commits, ())
        if event.owned:
            self._bound_partitions(changes, "owned", event.owned, None)
        return msgspec.structs.replace(event, **changes) if changes else event

    def _bound_worker(self, changes: dict[str, Any], worker: ConnectWorker) -> None:
        texts = {name: getattr(worker, name) for name in _WORKER_TEXTS}
        short = {name: truncate(text, self._most) for name, text in texts.items()}
        if short != texts:
            changes["worker"] = msgspec.structs.replace(worker, **short)
            self._hit(Bound.TEXT)

    def _bound_partitions(
        self,
        changes: dict[str, Any],
        name: str,
        listed: TopicPartitions | tuple[TopicOffsets, ...],
        if_too_many: tuple[()] | None,
    ) -> None:
        if sum(len(one.partitions) for one in listed) > self._partitions:
            changes[name] = if_too_many
            self._hit(Bound.PARTITIONS_OF_EVENT)
        elif any(len(one.topic) > self._most for one in listed):
            changes[name] = tuple(
                msgspec.structs.replace(one, topic=truncate(one.topic, self._most)) for one in listed
            )
            self._hit(Bound.TEXT)
