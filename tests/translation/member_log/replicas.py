"""Replicas with a member log each, on one simulated log, and clients that call them: a seed determines a whole history.

What is played here beside the real :class:`MemberLog` is as small as can be: a replica's part for its members (answer,
enforce the session timeout, send epoch -1), and clients that heartbeat, hop from replica to replica, come back on old
connections, fall silent and die. Virtual time, in milliseconds.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, cycle
from typing import Any

from msgspec.structs import replace

from tests.translation.member_log.model import Entry, Log, Seen
from translation.member_log.formats import DEFAULT_FORMAT, FORMATS
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import (
    Dying,
    Ended,
    Expired,
    Health,
    HealthChanged,
    JoinTerms,
    OtherRecordCounts,
    ServeDecision,
    Serving,
    Settled,
    Taken,
    WriteRecord,
)
from translation.member_log.ownership import IllegalOwnershipChange, Ownership
from translation.member_log.records import PROBE, Kind, MemberKey, MemberRecord, Writer, decode_key
from translation.member_log.settings import FleetSettings

SESSION_MS = 10_000
HEARTBEAT_MS = 3_000
GIVES_UP_MS = 60_000
"""``message.timeout.ms`` of the producers."""
FAULTS_MS = 100_000
SETTLES_MS = 100_000
SETTINGS = FleetSettings(partitions=1)


class Violation(AssertionError):
    """An invariant does not hold."""


class Call:
    """A client's call at a replica."""

    def __init__(self, client: "Client", key: MemberKey, connection: int, at: int, *, issued: bool) -> None:
        self.client, self.key, self.connection, self.at, self.issued = client, key, connection, at, issued
        self.last_at = -SESSION_MS
        """When the call before came on this connection."""


class Replica:
    """A process: its member log, its producer and consumer, and the members that it serves."""

    def __init__(self, world: "World", name: int) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.silent_until = 0
        """It stands still: it reads nothing, writes nothing, looks at no deadline."""
        self.cannot_read_until = 0
        self.cannot_write_until = 0
        self.writer = world.new_writer(self)
        settings = replace(SETTINGS, record_format=next(world.formats))
        self.log = MemberLog(settings, self.writer, world.seconds)
        self.queue: list[tuple[int, MemberKey, Writer, MemberRecord | None, Seen]] = []
        """Produced and not appended: when, and the record."""
        self.serves: dict[MemberKey, int] = {}
        """The members that it serves, and when the session of each ends."""
        self.heard: dict[MemberKey, int] = {}
        self.calls: dict[tuple[MemberKey, int], Call] = {}
        self.position = 0
        self.health = Health.REPLAYING
        self.log.replay_to(0, world.broker.end, world.seconds)
        self.drain()
        world.after(0, self.read)
        world.after(0, self.tick)

    # -- clients -----------------------------------------------------------------------------------------------

    def call(self, call: Call) -> None:
        """A client's call arrives."""
        now = self.world.now
        place = self, call.key, call.connection
        call.at = now
        call.last_at = self.world.called.get(place, -SESSION_MS)
        self.world.called[place] = now
        self.heard[call.key] = now
        if call.key in self.serves:
            self.serves[call.key] = now + SESSION_MS
        verdict = self.log.claim(
            call.key, call.connection, self.world.seconds, JoinTerms(SESSION_MS), issued=call.issued
        )
        self.world.wants[call.key] += verdict is ServeDecision.PENDING or call.issued
        if verdict is ServeDecision.PENDING:
            self.calls[call.key, call.connection] = call
            self.world.after(int(SETTINGS.wait_s * 1000), lambda: self.time_out(call))
        else:
            self.answer(call, verdict, waited=False)
        self.drain()

    def time_out(self, call: Call) -> None:
        if self.calls.get((call.key, call.connection)) is call:
            del self.calls[call.key, call.connection]
            self.answer(call, ServeDecision.UNAVAILABLE, waited=True)

    def answer(self, call: Call, verdict: ServeDecision, *, waited: bool) -> None:
        if not self.is_alive:
            return
        now = self.world.now
        if verdict is ServeDecision.SERVE:
            self.world.check_served(self, call, waited=waited)
            self.serves[call.key] = now + SESSION_MS
        call.client.answered(self, call, verdict)

    # -- the log -----------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Do what the member log says."""
        for output in self.log.outputs():
            if isinstance(output, WriteRecord):
                self.produce(output)
            elif isinstance(output, Settled):
                for waiting in [call for call in self.calls.values() if call.key == output.key]:
                    verdict = self.log.verdict(waiting.key, waiting.connection, self.world.seconds)
                    if verdict is not ServeDecision.PENDING:
                        del self.calls[waiting.key, waiting.connection]
                        self.answer(waiting, verdict, waited=True)
            elif isinstance(output, Serving):
                self.serves.setdefault(output.key, self.world.now + SESSION_MS)
            elif isinstance(output, Taken):
                if self.serves.pop(output.key, None) is None:
                    raise Violation(f"Taken for {output.key}, which {self.name} does not serve")
            elif isinstance(output, Expired):
                self.serves.pop(output.key, None)
                self.world.check_minus_one(self, output.key)
                if self.world.random.random() < 0.8:  # else its answer is lost
                    self.world.after(self.world.random.randint(1, 3_000), partial(self.end, output.key))
            elif isinstance(output, HealthChanged):
                self.health = output.health
            else:
                assert isinstance(
                    output, Dying | Ended | OtherRecordCounts
                )  # what a replica does for others of the group is not played here

    def end(self, key: MemberKey) -> None:
        if self.is_alive:
            self.world.wants[key] += 1
            self.log.end(key, self.world.seconds)
            self.drain()

    def produce(self, output: WriteRecord) -> None:
        world = self.world
        key, writer = decode_key(output.key)
        record = None if output.value is None else FORMATS[output.format].decode(output.value)
        if record is not None and self.health is not Health.READY:
            raise Violation("written while the log is away")
        if writer != self.writer:
            return  # for a producer of before
        if record is not None:
            self.check_expiring(key, record)
            world.written[key] += 1
            if world.written[key] > SETTINGS.tries * world.wants[key]:
                raise Violation(f"{key} was written {world.written[key]} times for {world.wants[key]} wishes")
        view = self.log._members.partitions[0].view
        present = view.get(key)
        seen = Seen(present and present.offset, view.position, view.newest_ms)
        if record is not None and any(queued[1:3] == (key, writer) for queued in self.queue):
            raise Violation(f"two unresolved records of {key}")
        at = max(world.now, self.cannot_write_until) + world.delay()
        if self.queue:
            at = max(at, self.queue[-1][0])  # a producer keeps the order
        self.queue.append((at, key, writer, record, seen))
        queue, last = self.queue, self.queue[-1]
        world.after(at - world.now, lambda: self.append(queue, last))
        if at > world.now + GIVES_UP_MS:
            world.after(GIVES_UP_MS, lambda: self.fail(writer))

    def append(self, queue: list[Any], item: Any) -> None:
        if item in queue:
            queue.remove(item)
            self.world.append(self, item[1:])

    def check_expiring(self, key: MemberKey, record: MemberRecord) -> None:
        """L3: the replica has not heard the member for its session."""
        silence = self.world.now - self.heard.get(key, -SESSION_MS)
        if record.kind is Kind.EXPIRING and silence < SESSION_MS:
            raise Violation(f"{key} is expired, and was heard {silence} ms ago")

    def fail(self, writer: Writer) -> None:
        """The outcome of what this producer had not delivered is unknown; some of it lands all the same."""
        if self.is_alive and writer == self.writer:
            if self.world.random.random() < 0.5:
                self.queue.clear()
            self.queue = []
            self.world.wants.update(self.serves.keys())  # all of them may be written anew
            self.writer = self.world.new_writer(self)
            self.log.replace_writer(self.writer, self.world.seconds)
            self.drain()

    def read(self) -> None:
        """Read what there is, with a delay of its own each time."""
        world = self.world
        if not self.is_alive:
            return
        blocked_until = max(self.silent_until, self.cannot_read_until)
        if blocked_until > world.now:
            world.after(blocked_until - world.now, self.read)
            return
        while (entry := world.broker.next_from(self.position)) is not None:
            self.position = entry.offset + 1
            self.take(entry)
            world.check_view(self)
            self.drain()
            if world.random.random() < 0.3:
                break
        world.after(world.random.choice([5, 20, 100]), self.read)

    def take(self, entry: Entry) -> None:
        if entry.record is None:
            self.log.read_probe(0, entry.writer, entry.offset, entry.appended_ms, self.world.seconds)
        else:
            self.log.read(0, entry.key, entry.stored, self.world.seconds)

    def lose(self) -> None:
        """Its consumer is told that it is out of range."""
        self.queue = []
        self.world.wants.update(self.serves.keys())
        self.writer = self.world.new_writer(self)
        self.position = 0
        self.log.lose(0, self.writer, self.world.seconds)
        self.log.replay_to(0, self.world.broker.end, self.world.seconds)
        self.drain()

    # -- time --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        world = self.world
        if not self.is_alive:
            return
        if self.silent_until <= world.now:
            for key, until in list(self.serves.items()):
                if until <= world.now:
                    if self.log.expire(key, world.seconds):
                        world.wants[key] += 1
                        self.serves[key] = world.now + SESSION_MS  # asked again, should the log say nothing
                    else:
                        del self.serves[key]
            if self.log.next_deadline() <= world.seconds:
                self.log.handle_time(world.seconds)
            self.drain()
        world.after(250, self.tick)

    def wake(self) -> None:
        """It has stood still: what lies in its sockets is read first (a second of grace)."""
        for key, until in self.serves.items():
            self.serves[key] = max(until, self.world.now + 1_000)


class Client:
    """One consumer: it has a member id, and a connection to some replica."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self.ids = count()
        self.is_alive = True
        self.connections: dict[Replica, int] = {}
        self.replica = world.any_replica()
        self.key = self.new_key()
        self.issued_by: Replica | None = self.replica
        self.served_at = -(10**9)
        self.call: Call | None = None
        world.after(world.random.randint(0, 3_000), self.heartbeat)

    def new_key(self) -> MemberKey:
        return MemberKey("g", f"m{self.number}.{next(self.ids)}")

    def connection(self) -> int:
        if self.replica not in self.connections:
            self.connections[self.replica] = next(self.world.connection_ids)
        return self.connections[self.replica]

    def heartbeat(self) -> None:
        world = self.world
        if not self.is_alive:
            return
        if not self.replica.is_alive:
            self.hop()
        replica, connection = self.replica, self.connection()
        issued = self.issued_by is replica
        self.issued_by = None
        call = self.call = Call(self, self.key, connection, world.now, issued=issued)
        world.after(world.delay(), lambda: self.arrive(replica, call))
        world.after(12_000, lambda: self.no_answer(call))

    def arrive(self, replica: Replica, call: Call) -> None:
        if replica.is_alive:
            if replica.silent_until > self.world.now:
                self.world.after(replica.silent_until - self.world.now, lambda: self.arrive(replica, call))
            elif self.connections.get(replica) == call.connection:
                replica.call(call)

    def no_answer(self, call: Call) -> None:
        if self.call is call:
            self.call = None
            self.hang_up(self.replica)
            self.hop()
            self.heartbeat()

    def answered(self, replica: Replica, call: Call, verdict: ServeDecision) -> None:
        if self.call is not call:
            return
        self.call = None
        world = self.world
        if verdict is ServeDecision.SERVE:
            self.served_at = world.now
            world.after(HEARTBEAT_MS, self.heartbeat)
        elif verdict is ServeDecision.GONE:
            replica.end(call.key)  # whoever finds it sends the -1, and says so
            self.key, self.issued_by = self.new_key(), replica
            world.after(10, self.heartbeat)
        else:
            world.after(500, self.heartbeat)

    def hop(self) -> None:
        """To another replica, perhaps back on an old connection that is still open."""
        self.replica = self.world.any_replica()
        if self.world.random.random() < 0.7:
            self.hang_up(self.replica)

    def hang_up(self, replica: Replica) -> None:
        connection = self.connections.pop(replica, None)
        if connection is not None and replica.is_alive:
            replica.log.withdraw_confirmations(connection)
            replica.drain()


class World:
    """The log, its replicas, the clients, and what goes wrong."""

    def __init__(self, seed: int, formats: Iterable[int] = (DEFAULT_FORMAT,)) -> None:
        self.formats = cycle(formats)
        """Each process that starts writes the next of them."""
        self.random = random.Random(seed)  # noqa: S311  a seed determines all
        self.now = 0
        self.broker = Log()
        self.events: list[tuple[int, int, Callable[[], Any]]] = []
        self.order = count()
        self.connection_ids = count(1)
        self.writers: dict[Writer, Replica] = {}
        self.landed: dict[MemberKey, list[tuple[int, Replica | None, Kind | None]]] = {}
        """By member: what counted, from when, and whose it was."""
        self.wants: Counter[MemberKey] = Counter()
        """How often something was wanted that is written down, by member."""
        self.written: Counter[MemberKey] = Counter()
        self.called: dict[tuple[Replica, MemberKey, int], int] = {}
        """When the last call came, by replica, member and connection."""
        self.replicas = [Replica(self, number) for number in range(self.random.randint(2, 4))]
        self.clients = [Client(self, number) for number in range(self.random.randint(1, 3))]

    @property
    def seconds(self) -> float:
        return self.now / 1000

    def after(self, ms: int, act: Callable[[], Any]) -> None:
        heapq.heappush(self.events, (self.now + max(ms, 0), next(self.order), act))

    def delay(self) -> int:
        return self.random.choice([1, 2, 5, 5, 20, 100])

    def new_writer(self, replica: Replica) -> Writer:
        writer = Writer(b"%016d" % next(self.order))
        self.writers[writer] = replica
        return writer

    def any_replica(self) -> Replica:
        return self.random.choice([replica for replica in self.replicas if replica.is_alive])

    def run(self) -> None:
        """Faults for a while, then none, and everything has to settle."""
        self.after(self.random.randint(1_000, 10_000), self.fault)
        self.run_until(FAULTS_MS)
        self.run_until(FAULTS_MS + SETTLES_MS)
        self.check_settled()

    def run_until(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, act = heapq.heappop(self.events)
            self.broker.now_ms = 10**12 + self.now
            act()
        self.now = until

    def append(self, replica: Replica, item: Any) -> None:
        key, writer, record, seen = item
        if record is not None and self.broker.is_late(seen):
            return
        entry = self.broker.append(key, writer, record, seen)
        if key != PROBE and self.broker.oracle.history[-1].get(key) == entry:
            self.landed.setdefault(key, []).append((self.now, replica, record.kind))

    # -- what goes wrong ---------------------------------------------------------------------------------------

    def fault(self) -> None:
        kinds = [
            self.away, self.cannot_read, self.cannot_write, self.stand_still, self.crash, self.fail, self.lose,
            self.hop, self.hop, self.there_and_back, self.bounce, self.client_dies, self.client_sleeps, self.relay,
        ]  # fmt: skip
        self.random.choice(kinds)()
        if self.now < FAULTS_MS - 35_000:
            self.after(self.random.choice([100, 1_000, 5_000, 15_000]), self.fault)

    def span(self) -> int:
        return self.now + self.random.choice([500, 1_500, 3_000, 10_000, 30_000])

    def away(self) -> None:
        until = self.span()
        for replica in self.replicas:
            replica.cannot_read_until = replica.cannot_write_until = until

    def cannot_read(self) -> None:
        self.any_replica().cannot_read_until = self.span()

    def cannot_write(self) -> None:
        self.any_replica().cannot_write_until = self.span()

    def stand_still(self) -> None:
        replica = self.any_replica()
        replica.silent_until = self.span()
        self.after(replica.silent_until - self.now, replica.wake)

    def crash(self) -> None:
        number = self.random.randrange(len(self.replicas))
        replica = self.replicas[number]
        replica.is_alive = False
        self.replicas[number] = Replica(self, number)
        for client in self.clients:
            if client.connections.pop(replica, None) is not None and client.call is not None:
                self.after(100, lambda client=client, call=client.call: client.no_answer(call))

    def fail(self) -> None:
        replica = self.any_replica()
        replica.fail(replica.writer)

    def lose(self) -> None:
        self.any_replica().lose()

    def hop(self) -> None:
        self.random.choice(self.clients).hop()

    def there_and_back(self) -> None:
        """A client goes from A to B and back to A, which reads nothing meanwhile."""
        client = self.random.choice(self.clients)
        here = client.replica
        if not here.is_alive:
            return
        here.cannot_read_until = self.now + 8_000
        client.hop()

        def back() -> None:
            if here.is_alive:
                client.replica = here
                if self.random.random() < 0.5:
                    client.hang_up(here)

        self.after(self.random.choice([200, 4_000, 6_000]), back)

    def bounce(self) -> None:
        """Within two seconds: a claim at A, one at B, and one at A on another connection; A reads nothing meanwhile."""
        client = self.random.choice(self.clients)
        here = client.replica
        if not (here.is_alive and client.is_alive):
            return
        here.cannot_read_until = max(here.cannot_read_until, self.now + self.random.choice([800, 1_600]))

        def call(replica: Replica) -> None:
            if replica.is_alive:
                client.hang_up(replica)
                client.replica = replica
                client.heartbeat()

        call(here)
        elsewhere = self.any_replica()
        self.after(150, lambda: call(elsewhere))
        self.after(600, lambda: call(here))

    def client_dies(self) -> None:
        client = self.random.choice(self.clients)
        if self.random.random() < 0.3:
            client.is_alive = False

    def client_sleeps(self) -> None:
        """Longer than its session; its connection stays open."""
        client = self.random.choice(self.clients)
        if client.is_alive and client.call is None:
            client.is_alive = False

            def wake() -> None:
                client.is_alive = True
                client.heartbeat()

            self.after(self.random.choice([4_000, 9_500, 10_500, 20_000]), wake)

    def relay(self) -> None:
        """A client's member id is relayed for once; its next call claims it back."""
        client = self.random.choice(self.clients)
        replica = client.replica
        if replica.is_alive and replica.silent_until <= self.now and client.call is None:
            self.wants[client.key] += replica.log.relay(client.key, self.seconds) is ServeDecision.PENDING
            replica.drain()

    # -- invariants --------------------------------------------------------------------------------------------

    def check_view(self, replica: Replica) -> None:
        """L1, and each ownership is what the record that counts and the unresolved one make it."""
        log = replica.log
        if log.health(0) is Health.REPLAYING:
            return
        right = self.broker.oracle.history[replica.position - 1]
        for key in self.landed:
            found, entry = log._members.partitions[0].view.get(key), right.get(key)
            if (found and found.offset) != (entry and entry.offset):
                raise Violation(f"{found} counts instead of {entry}")
            self.check_seat(log, key)

    def check_seat(self, log: MemberLog, key: MemberKey) -> None:
        stored, ownership = log._members.partitions[0].view.get(key), log.ownership(key)
        kind = stored and stored.record.kind
        own = stored is not None and stored.writer in log._members.own
        entry = log._members.entries.get(key)
        expected = {
            None: {Ownership.UNKNOWN, Ownership.CLAIMING},
            Kind.SERVED: {Ownership.SERVING, Ownership.CLAIMING, Ownership.EXPIRING}
            if own
            else {Ownership.ELSEWHERE, Ownership.CLAIMING},
            Kind.EXPIRING: {Ownership.EXPIRED},
            Kind.ENDED: {Ownership.ENDED},
            Kind.RELAYED: {Ownership.RELAYED, Ownership.CLAIMING},
        }[kind]
        unresolved = entry and entry.write and entry.write.record.kind
        claims = ownership is Ownership.CLAIMING and unresolved is not Kind.SERVED
        expires = ownership is Ownership.EXPIRING and unresolved is not Kind.EXPIRING
        if ownership not in expected or claims or expires:
            raise Violation(
                f"{key} has the ownership {ownership}; {stored} counts, {unresolved} is unresolved"
            )

    def check_served(self, replica: Replica, call: Call, *, waited: bool) -> None:
        """Who serves a call that waited had the member at some moment since it came.

        A call that did not wait came on a connection on which the client had called less than half a session ago.
        """
        if call.issued:
            return
        if not waited:
            if call.at - call.last_at >= SESSION_MS // 2:
                raise Violation(f"{replica.name} serves {call.key} on a connection that was silent for long")
            return
        history = self.landed.get(call.key, [])
        ends = [start for start, _, _ in history[1:]] + [self.now]
        if not any(
            kind is Kind.SERVED and owner is replica and end >= call.at
            for (_, owner, kind), end in zip(history, ends, strict=True)
        ):
            raise Violation(
                f"{replica.name} serves {call.key}, and did not have it since the call came: {history}"
            )

    def check_minus_one(self, replica: Replica, key: MemberKey) -> None:
        """Epoch -1 is sent by the one whose ``expiring`` counts."""
        dead = [
            (owner, kind)
            for _, owner, kind in self.landed.get(key, [])
            if kind in (Kind.EXPIRING, Kind.ENDED)
        ]
        if not dead or dead[0] != (replica, Kind.EXPIRING):
            raise Violation(f"{replica.name} sends -1 for {key}: {dead}")

    def check_settled(self) -> None:
        """Long after the last fault: who lives is served, who died is out, and no replica waits for anything."""
        for replica in self.replicas:
            if replica.log.health(0) is not Health.READY or replica.log.unresolved():
                raise Violation(
                    f"{replica.name} is {replica.log.health(0)}, {replica.log.unresolved()} unresolved"
                )
        for client in self.clients:
            if client.is_alive:
                if client.served_at < self.now - 2 * HEARTBEAT_MS:
                    raise Violation(f"client {client.number} is not served")
                if client.replica.log.ownership(client.key) is not Ownership.SERVING:
                    raise Violation(f"client {client.number} has no ownership where it is served")
        living = {client.key for client in self.clients if client.is_alive}
        for key, history in self.landed.items():
            _, owner, kind = history[-1]
            lives = kind is not Kind.SERVED or owner is None or not owner.is_alive or key in living
            if not lives and key in owner.serves:
                raise Violation(f"{key} is dead and never expired: {history}")


def plays(seed: int, formats: Iterable[int] = (DEFAULT_FORMAT,)) -> str | None:
    """Play a seed, with processes that write these formats. Return what went wrong, or None."""
    try:
        World(seed, formats).run()
    except (Violation, IllegalOwnershipChange) as violation:
        return str(violation)
    return None
