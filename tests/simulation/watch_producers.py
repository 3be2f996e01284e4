"""Invariant 3 for transactional producers, whose commits name a member and come by another way than the member's calls.

What the broker accepts is judged like every commit (:mod:`tests.simulation.watch_commits`). What is refused is judged
here: a commit with the generation that its client has, and had when the replica read it, must not be refused as that of
no member or of an older generation. Unless the producer's own way to the broker is broken: at its end a deposed
coordinator may describe what was before (:mod:`tests.simulation.deposed`). Kafka refuses such a commit there itself,
and the application aborts its transaction and begins anew.

That such a commit takes nobody over is L7 (:mod:`tests.simulation.fleet.watch_log`).
"""

from typing import TYPE_CHECKING, Any

from protocol_codecs import ErrorCode
from tests.simulation.standing import MEMBERSHIP_IS_OVER
from tests.simulation.violation import Violation
from tests.simulation.wire import Ask, codes_in
from translation.actions import Call

if TYPE_CHECKING:
    from tests.simulation.clients.producer import Producer
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch

ACCEPTED = "commits of producers through another replica, accepted"
REFUSED = "commits of producers through another replica, refused"
OLD = "commits of producers with an older generation"


class ProducerWatch:
    """Observes how proxies handle the calls of producers; the methods are those of :class:`Watch`."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._must_succeed: dict[tuple[Any, int], bool] = {}

    def prepared(self, producer: "Producer", request: Any) -> None:
        """A producer takes the offsets and the generation of its consumer, to send them later."""
        self._watch.commits.prepared(producer.consumer, request)

    def call_arrived(self, process: "ProxyProcess", producer: "Producer", ask: Ask) -> None:
        """A replica has read a commit."""
        self._must_succeed[producer, ask.number] = self._is_current(producer, ask)
        if ask.message.generation_id_or_member_epoch != producer.consumer.generation:
            self._watch.count(OLD)

    def _is_current(self, producer: "Producer", ask: Ask) -> bool:
        """Whether a commit is in the name of what its client is at this moment, and may be."""
        consumer, message = producer.consumer, ask.message
        standing = self._watch.standings[consumer]
        return (
            consumer.is_stable
            and message.member_id == consumer.member_id == standing.member_id
            and message.generation_id_or_member_epoch == consumer.generation
            and standing.excuse() is None
            and self._watch.standings[producer].broken_ms < self._watch.kernel.now_ms
        )

    def abandoned(self, producer: "Producer", ask: Ask) -> None:
        """A replica hears that the producer does not wait any more."""

    def forwarded(self, process: "ProxyProcess", producer: "Producer", ask: Ask) -> None:
        self._watch.tell(process, f"relays for {producer}:", ask.message)

    def relayed(self, process: "ProxyProcess", producer: "Producer", ask: Ask, message: Any) -> None:
        """The broker itself answered: what it does to classic members is not judged."""
        self._must_succeed.pop((producer, ask.number))
        self._count(message)

    def answered(
        self, process: "ProxyProcess", producer: "Producer", ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """The replica answered."""
        refusals = self._count(message)
        must = self._must_succeed.pop((producer, ask.number)) and self._is_current(producer, ask)
        if must and refusals:
            raise Violation(
                3, f"{process} refuses a commit of {producer} with the generation of {producer.consumer}"
            )

    def _count(self, message: Any) -> set[int]:
        """Count an answer; return the codes in it that refuse the member or its generation."""
        refusals = codes_in(message) & MEMBERSHIP_IS_OVER
        if refusals or codes_in(message) == {ErrorCode.NONE}:
            self._watch.count(REFUSED if refusals else ACCEPTED)
        return refusals

    def called(self, process: "ProxyProcess", call: Call, *, lost: bool) -> None:
        self._watch.called(process, call, lost=lost)

    def called_back(self, process: "ProxyProcess", call: Call, message: Any) -> None:
        self._watch.called_back(process, call, message)
