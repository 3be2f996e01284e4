"""Invariant 3: commits with the current generation are accepted, and older ones take no partition's offset over.

A generation is all that brokers look at. So a commit with the current one may name a partition that another client has
by now; one with an older generation may not.

The commits of one connection are accepted in the order in which its client sent them, however many it sends before the
first is answered: else an older one would set the offset back.
"""

from typing import TYPE_CHECKING, Any

from protocol_codecs import ErrorCode
from tests.simulation.standing import LEFT_BEHIND, Pid, Standing
from tests.simulation.violation import Violation
from tests.simulation.wire import Ask, generation_in

if TYPE_CHECKING:
    from tests.simulation.clients.caller import Caller
    from tests.simulation.network import Link
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch

LATE_COMMIT = "late commits at a replica that has not read of the newer generation"


class CommitWatch:
    """Judges each OffsetCommit when a proxy reads it, when it is answered, and when the broker accepts it."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._expected: dict[tuple[Any, int], bool | None] = {}
        """Whether a commit must be accepted, by client and request; see :meth:`_must_succeed`."""
        self._sent_as: dict[tuple[str, str, int, int], int] = {}
        """Which of a client's commits, counted, has an offset: by member id, topic, partition and offset."""
        self._accepted: dict[tuple[Link, str, str, int], int] = {}
        """The last of them that the broker accepted on a connection, by that, member id, topic and partition."""

    def asked(self, client: "Caller", ask: Ask) -> None:
        """A client sends a commit."""
        self.prepared(client, ask.message)
        self._sent_as.update(
            ((ask.message.member_id, topic.name, one.partition_index, one.committed_offset), ask.number)
            for topic in ask.message.topics
            for one in topic.partitions
        )

    def prepared(self, client: "Caller", message: Any) -> None:
        """Record the generation of each offset that a client commits, itself or through its producer."""
        self._watch.standings[client].committed_with.update(
            ((topic.name, one.partition_index, one.committed_offset), generation_in(message))
            for topic in message.topics
            for one in topic.partitions
        )

    def arrived(self, process: "ProxyProcess", client: "Caller", ask: Ask) -> None:
        """A proxy has read a commit."""
        self._expected[client, ask.number] = self._must_succeed(self._watch.standings[client], process, ask)

    def _must_succeed(self, standing: Standing, process: "ProxyProcess", ask: Ask) -> bool | None:
        """Whether a commit must be accepted (True) or refused (False); None if it can't be said."""
        generation = ask.message.generation_id_or_member_epoch
        if standing.joined_at != (process.name, process.incarnation) or standing.joins_waiting:
            return None
        if ask.message.member_id != standing.member_id:
            return None
        if generation == standing.generation:
            return True
        if generation == standing.previous_generation and not standing.synced:
            # What its JoinGroup gave up may have another owner.
            return True if self._named(ask) <= standing.claims else None
        if standing.previous_generation < generation < standing.generation and not standing.synced:
            return None  # of a JoinGroup that was answered and answered again, maybe
        if standing.excuse() is not None:
            return None  # forgotten here, and maybe adopted again: then its generation is not known
        return None if standing.previous_generation < 0 and not standing.synced else False

    def _named(self, ask: Ask) -> frozenset[Pid]:
        """The partitions of a commit, of the topics that exist."""
        ids = {name: topic.topic_id for name, topic in self._watch.broker.image.topics.items()}
        return frozenset(
            (ids.get(topic.name), partition.partition_index)
            for topic in ask.message.topics
            for partition in topic.partitions
        )

    def answered(self, standing: Standing, ask: Ask, codes: set[int]) -> None:
        """Check a proxy's own answer to a commit."""
        must = self._expected.pop((standing.client, ask.number), None)
        is_older = ask.message.generation_id_or_member_epoch != standing.generation
        if must and is_older and (standing.synced or not self._named(ask) <= standing.claims):
            must = None  # while it waited, SyncGroup came first, or a JoinGroup gave up what it names
        self._watch.count("commits")
        if must is False and ErrorCode.NONE in codes:
            raise Violation(3, f"a commit of {standing.client} with an old generation is accepted")
        if must is False:
            self._watch.count("commits refused")
        refusals = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
        if must is True and codes & refusals and standing.excuse() is None:
            if self._watch.is_left_behind(standing):
                self._watch.count(LEFT_BEHIND)
                return
            raise Violation(3, f"a commit of {standing.client} with its generation is refused")

    def accepted(self, message: Any, link: "Link") -> None:
        """Check a commit that the broker accepted: nobody else may have a right to its partitions.

        Not judged is what "What stays open" in docs/explanation/fleet.md says of late commits: the client has joined
        at another replica since, and ``sender`` can't have read that in the member log. Nobody waits for that record.
        Without a log all such commits are let through.
        """
        watch, sender = self._watch, link.near
        self._check_order(message, link)
        standing = watch.client_of.get(message.member_id)
        if standing is None or standing.session_timeout_ms is None:
            return
        names = {name: topic.topic_id for name, topic in watch.broker.image.topics.items()}
        working_on = standing.client.named()
        current = (
            {standing.generation} if standing.synced else {standing.generation, standing.previous_generation}
        )
        for topic in message.topics:
            for partition in topic.partitions:
                pid = names.get(topic.name), partition.partition_index
                if (topic.name, partition.partition_index) in working_on:
                    continue  # of this topic, or of one that had its name
                commit = topic.name, partition.partition_index, partition.committed_offset
                generation = standing.committed_with.get(commit)
                if generation in current:
                    continue  # a generation is all that brokers look at
                for other in watch.ownership.holders(pid):
                    if watch.ownership.has_right(other, pid):
                        if generation is not None and self._is_unknown_to(sender, standing, generation):
                            watch.count(LATE_COMMIT)
                            return
                        text = (
                            f"{standing.client} commits {watch.story.partitions([pid])}, which {other} holds"
                        )
                        raise Violation(3, text)

    def _check_order(self, message: Any, link: "Link") -> None:
        for topic in message.topics:
            for one in topic.partitions:
                place = message.member_id, topic.name, one.partition_index
                number = self._sent_as.get((*place, one.committed_offset), 0)
                before = self._accepted.get((link, *place), 0)
                if number < before:
                    text = f"commit {number} of {message.member_id} is accepted after {before}, on one connection"
                    raise Violation(3, text)
                self._accepted[link, *place] = number

    def _is_unknown_to(self, sender: Any, standing: Standing, generation: int) -> bool:
        """Whether a replica can't know that a client has a newer generation than this."""
        if getattr(sender, "member_log", None) is None:
            return False
        if standing.joined_at == (sender.name, sender.incarnation):
            return False
        return self._watch.log.has_yet_to_read(sender.member_log, standing, generation)
