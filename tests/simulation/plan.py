"""Makes the plan of a seed: topics, broker, processes, clients, and the faults with their times.

Everything that is decided beforehand is here and can be printed; the target of a fault is chosen when it happens, from
the same random source.
"""

import random

import msgspec

from tests.simulation.clients.classic import Pace
from tests.simulation.clients.habits import ALL_KINDS, FAMILIES, KAFKA_GO, KAFKA_PYTHON, Habits
from tests.simulation.clients.hostile import HostilePlan
from tests.simulation.gate_kinds import HARM
from tests.simulation.gate_kinds import KINDS as GATE_KINDS

TOPICS = ("orders", "refunds")

ALWAYS_MS = 10**9
"""Longer than any run."""


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One client. ``habits`` None means a member of the new protocol."""

    name: str
    starts_ms: int
    habits: Habits | None
    pace: Pace
    topics: frozenset[str]
    instance_id: str | None
    through_proxy: bool = False
    """Whether a member of the new protocol comes through the proxy."""
    commits_for_ms: int = 0
    """For how long after its start a member of the new protocol commits; then it only heartbeats."""


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One fault or change, and when it happens."""

    at_ms: int
    kind: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. Faults happen up to ``calm_from_ms``."""

    seed: int
    topics: dict[str, int]
    broker_session_ms: int
    broker_heartbeat_ms: int
    assignment_interval_ms: int
    processes: int
    slow_network: bool
    hold_ups_ms: int = 0
    """How long the network may delay calls that begin or end a membership (:mod:`tests.simulation.hold_ups`)."""
    initial_rebalance_delay_ms: int = 0
    """How long the first member of a translated group without members waits for others."""
    fleet: bool = False
    """Whether the processes are replicas with one member log (:mod:`tests.simulation.fleet`)."""
    describes_pending_revocation: bool = True
    """Whether the broker describes what members are to revoke as theirs: Kafka does since 4.3."""
    starts_observed: bool = False
    """Whether the group is classic at first, as before a migration."""
    clients: tuple[ClientPlan, ...]
    newcomers: tuple[ClientPlan, ...] = ()
    """The clients that are added by the fault that adds clients, in this order."""
    faults: tuple[FaultPlan, ...]
    calm_from_ms: int
    steps: tuple[int | str, ...] = ()
    """The steps by which the group moves, where the policy says ``translate``; empty: as a whole."""
    hold_s: int = 0
    """How long each step is held."""
    approval: bool = False
    """Whether each step needs an approval."""
    last_command: str = ""
    """What somebody says at last, after others have said what they liked; empty: nobody says anything."""
    has_gates: bool = False
    """Whether that move has gates; then ``gates_kind`` is planted from ``gates_from_ms`` to ``gates_until_ms``
    (:mod:`tests.simulation.gates`)."""
    gates_kind: str = ""
    gates_from_ms: int = 0
    gates_until_ms: int = 0
    gates_faultless: bool = False
    """Whether nothing else goes wrong."""
    in_wave: bool = False
    """Whether the group is the first wave of the policy, so that it is to be known when its move is over."""
    outage: bool = False
    """Whether the brokers and the member log go away for a while; their session timeout is a stock broker's."""
    hostiles: tuple[HostilePlan, ...] = ()
    """The attackers. They end before ``calm_from_ms``."""


ANOTHER_COMES = "another client comes"
RECREATED = "a topic is created again"

CHANGES = {
    "a client leaves": 3,
    "a client rejoins by itself": 2,
    "a client changes its subscription": 2,
    "partitions are added": 2,
    ANOTHER_COMES: 2,
    "the policy is read again": 1,
    "a late thread commits": 3,
}
"""Changes of normal operation, with weights."""

FAULTS = {
    "a client crashes": 4,
    "a client ends without a word": 3,
    "a client's connection breaks": 6,
    "a client's connection stalls": 4,
    "an upstream connection breaks": 6,
    "an upstream connection stalls": 4,
    "an answer to a client is lost": 4,
    "an answer of the broker is lost": 5,
    "a proxy crashes": 3,
    "a proxy stands still": 2,
    "a proxy's clock jumps": 2,
    "a client moves to another replica": 4,
    "the coordinator fails over": 2,
    "JoinGroups of a client race": 3,
    "a JoinGroup comes too late": 2,
    "an instance id is used twice": 2,
    RECREATED: 1,
}
"""Faults, with weights."""


FLEET_FAULTS = {
    "the member log is away": 3,
    "a replica can't read the member log": 4,
    "a replica can't write the member log": 3,
    "writing the member log fails": 2,
    "the member log is read again": 1,
    "a replica is replaced": 3,
    "a client moves to another replica": 6,
    "a client goes to another replica and back": 4,
    "a client ends without a word": 2,
}
"""Faults of a fleet, with weights; some of the others happen more often there."""

SHOWS_OLD_STATE = "the coordinator fails over and shows old state"
PRODUCER_COMMITS = "a producer commits through another replica"

SWITCH = "the policy changes the mode"
"""From observe to translate or back, while the group lives. It happens only among clients that could be in one classic
group."""


ANY_GATE = "any"

STEPS_CHANGE = "the steps of the policy change"

OUTAGE = "brokers or log are away"

COMMAND = "somebody gives a command about the move"

STEPS: tuple[tuple[int | str, ...], ...] = (
    (1,),
    (2,),
    (1, 2, 3),
    (1, "100%"),
    ("20%", "50%"),
    ("50%",),
    (1, "50%", "100%"),
    ("34%", "100%"),
)
"""What the steps may be in a run."""
_PEOPLE = 0.4
"""In so many runs of a group that moves by steps people have their say."""
_MORE_CLIENTS = 3
"""So many are added to a group that moves by steps."""

POLICY_CHANGES_EVERY = 5
"""In every fifth seed the policy changes."""


def make_plan(
    seed: int,
    *,
    hold_ups_ms: int = 0,
    fleet: bool = False,
    old_state: bool = False,
    steps: bool = False,
    gates: str | None = None,
    busy: bool = False,
    outage: bool = False,
) -> Plan:
    """Make the plan of a seed, with two to five clients, to which others may be added.

    Every fourth plan has no faults, every fifth has a policy that changes. With ``fleet`` the processes are two to four
    replicas with a member log, and what else can go wrong then goes wrong too. With ``old_state`` these see and send
    what is out of date: see :func:`_with_old_state`. With ``steps`` the group moves by steps, and is held at some: see
    :func:`_with_steps`. With ``gates`` that move has gates, and this is planted: see :func:`_with_gates`. With ``busy``
    clients commit all the time: see :func:`_with_busy_clients`.
    With ``outage`` the brokers and the log are away for a while: see :func:`_with_outage`.
    """
    plan = _with_initial_rebalance(_plan(seed, hold_ups_ms=hold_ups_ms, fleet=fleet, steps=steps))
    if steps:
        plan = _with_steps(plan)
    if gates is not None:
        plan = _with_gates(plan, gates)
    if busy:
        plan = _with_busy_clients(plan)
    if outage:
        plan = _with_outage(plan)
    return _with_old_state(plan) if old_state else plan


def _with_initial_rebalance(plan: Plan) -> Plan:
    """Have the first member of an empty group wait for others in most runs, in some of them for too short a time.

    What is drawn for that changes nothing else in the plan.
    """
    chance = random.Random(f"initial rebalance {plan.seed}")  # noqa: S311  reproducible on purpose
    return msgspec.structs.replace(
        plan, initial_rebalance_delay_ms=chance.choice((0, 500, 1_500, 3_000, 3_000))
    )


_NOT_IN_AN_OUTAGE = frozenset(
    {SWITCH, "a proxy crashes", "a replica is replaced", "the member log is read again"}
)
"""What would leave members that no process knows, so that only the broker's session timeout ends them; and moves."""


def _with_outage(plan: Plan) -> Plan:
    """Have the brokers and the log go away after everything else, once or twice, at brokers with stock sessions.

    The clients of a stock broker have 45 s there, so a member that no client is any more is ended by a proxy or late.
    Without a fleet there is one process: several without a log leave that to the broker.
    """
    chance = random.Random(f"outage {plan.seed}")  # noqa: S311  reproducible on purpose
    faults = [fault for fault in plan.faults if fault.kind not in _NOT_IN_AN_OUTAGE]
    at_ms = plan.calm_from_ms
    for _ in range(chance.choice((1, 1, 2))):
        faults.append(FaultPlan(at_ms=at_ms, kind=OUTAGE))
        at_ms += chance.randint(65_000, 90_000)
    return msgspec.structs.replace(
        plan,
        outage=True,
        broker_session_ms=45_000,
        broker_heartbeat_ms=5_000,
        processes=plan.processes if plan.fleet else 1,
        starts_observed=False,
        slow_network=False,
        hostiles=(),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        calm_from_ms=at_ms,
    )


def _with_steps(plan: Plan) -> Plan:
    """Have the group moved by steps, which change now and then, while members come and go all the time, and in some
    runs people pause the move, or roll it back.

    What is drawn for that changes nothing else in the plan.
    """
    chance = random.Random(f"steps {plan.seed}")  # noqa: S311  reproducible on purpose
    kinds = [STEPS_CHANGE] * chance.choice((0, 0, 1, 2))
    kinds += chance.choices(("a client leaves", "a client crashes", "a client rejoins by itself"), k=3)
    kinds += [ANOTHER_COMES] * _MORE_CLIENTS
    people = random.Random(f"people {plan.seed}")  # noqa: S311  reproducible on purpose
    has_people = people.random() < _PEOPLE
    if has_people:
        kinds += [COMMAND] * people.randint(1, 8)
    faults = tuple(FaultPlan(at_ms=chance.randint(1_000, plan.calm_from_ms), kind=kind) for kind in kinds)
    return msgspec.structs.replace(
        plan,
        steps=chance.choice(STEPS),
        hold_s=chance.choice((0, 0, 2, 5)),
        approval=has_people and people.random() < 0.4,
        last_command=people.choice(("resume", "rollback")) if has_people else "",
        in_wave=chance.random() < 0.5,
        faults=tuple(sorted(plan.faults + faults, key=lambda fault: fault.at_ms)),
    )


GATE_STEPS: tuple[tuple[int | str, ...], ...] = (
    (1,),
    (1, 2, 3),
    (1, "100%"),
    ("20%", "50%"),
    (1, "50%", "100%"),
)
"""What the steps may be in a run with gates: the first is less than all."""
_GATES_SLOWER = 5
_GATES_SWITCH_MS = (1_000, 30_000)


def _may_harm(hostile: HostilePlan) -> bool:
    """Whether an attacker has READ on the group, and so may harm it like any of its clients."""
    return hostile.principal in {"trudy", "alice"}


def _with_gates(plan: Plan, kind: str) -> Plan:
    """Have a classic group moved by steps that have gates, five times as slowly, and plant what they are to notice.

    ``any`` plants one of all kinds, or nothing. The policy changes once, from observe to the steps. In every second
    history nothing else goes wrong. No topic is created again: fewer partitions look as if some had no owner
    (docs/explanation/gates.md).
    """
    chance = random.Random(f"gates {plan.seed}")  # noqa: S311  reproducible on purpose
    if kind == ANY_GATE:
        kind = chance.choice(GATE_KINDS)
    is_faultless = plan.seed % 2 == 0
    faults = [
        msgspec.structs.replace(fault, at_ms=fault.at_ms * _GATES_SLOWER)
        for fault in plan.faults
        if fault.kind not in {SWITCH, STEPS_CHANGE, RECREATED} and (fault.kind in CHANGES or not is_faultless)
    ]
    faults.append(FaultPlan(at_ms=chance.randint(*_GATES_SWITCH_MS), kind=SWITCH))
    calm_from_ms = plan.calm_from_ms * _GATES_SLOWER
    from_ms = chance.randint(20_000, calm_from_ms)
    return msgspec.structs.replace(
        plan,
        has_gates=True,
        gates_kind=kind,
        gates_from_ms=from_ms,
        gates_until_ms=ALWAYS_MS if kind == HARM else from_ms + chance.choice((30_000, 60_000, 90_000)),
        gates_faultless=is_faultless,
        starts_observed=True,
        steps=chance.choice(GATE_STEPS),
        slow_network=plan.slow_network and not is_faultless,
        hostiles=() if is_faultless else tuple(one for one in plan.hostiles if not _may_harm(one)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        calm_from_ms=calm_from_ms,
    )


def _with_busy_clients(plan: Plan) -> Plan:
    """Have most classic clients commit all the time without waiting for the answers, and heartbeat rarely.

    What is drawn for that changes nothing else in the plan.
    """
    chance = random.Random(f"busy {plan.seed}")  # noqa: S311  reproducible on purpose

    def busy(client: ClientPlan) -> ClientPlan:
        if client.habits is None or chance.random() < 0.3:
            return client
        pace = client.pace
        heartbeat_ms = max(pace.heartbeat_ms, pace.session_timeout_ms * 6 // 10)
        pace = msgspec.structs.replace(
            pace,
            commit_ms=chance.choice((0, 300)),
            commits_at_once=chance.choice((3, 10, 30)),
            heartbeat_ms=heartbeat_ms,
            rebalance_timeout_ms=pace.rebalance_timeout_ms + heartbeat_ms,
        )
        return msgspec.structs.replace(client, pace=pace)

    return msgspec.structs.replace(
        plan, clients=tuple(map(busy, plan.clients)), newcomers=tuple(map(busy, plan.newcomers))
    )


def _with_old_state(plan: Plan) -> Plan:
    """Have producers commit through other replicas, coordinators show old state, and half the brokers describe less.

    What is drawn for that changes nothing else in the plan.
    """
    chance = random.Random(f"old state {plan.seed}")  # noqa: S311  reproducible on purpose
    kinds = [PRODUCER_COMMITS] * chance.randint(4, 12)
    if plan.seed % 4:  # else the plan has no faults
        kinds += [SHOWS_OLD_STATE] * chance.randint(1, 2)
    faults = tuple(FaultPlan(at_ms=chance.randint(1_000, plan.calm_from_ms), kind=kind) for kind in kinds)
    return msgspec.structs.replace(
        plan, faults=plan.faults + faults, describes_pending_revocation=chance.random() < 0.5
    )


def _plan(seed: int, *, hold_ups_ms: int, fleet: bool, steps: bool) -> Plan:
    chance = random.Random(f"plan {seed}")  # noqa: S311  reproducible on purpose
    broker_session_ms, broker_heartbeat_ms = chance.choice(((45_000, 5_000), (12_000, 3_000), (6_000, 1_500)))
    topics = {"orders": chance.randint(2, 6)}
    if chance.random() < 0.6:
        topics["refunds"] = chance.randint(1, 3)
    calm_from_ms = chance.randint(15_000, 45_000)
    faultless = seed % 4 == 0
    moving = steps or seed % POLICY_CHANGES_EVERY == 0
    switches = chance.randint(1, 3) if moving else 0
    starts_observed = switches > 0 and chance.random() < 0.6
    weights = dict(CHANGES) if faultless else {**CHANGES, **FAULTS}
    kinds = chance.choices(list(weights), list(weights.values()), k=chance.randint(1, 4 if faultless else 9))
    faults = tuple(
        sorted(
            (
                FaultPlan(at_ms=chance.randint(1_000, calm_from_ms), kind=kind)
                for kind in [*kinds, *[SWITCH] * switches]
            ),
            key=lambda fault: fault.at_ms,
        )
    )
    fleet_chance = random.Random(f"fleet {seed}")  # noqa: S311  reproducible on purpose
    if fleet and not faultless:
        faults += _fleet_faults(fleet_chance, calm_from_ms)
    family = ALL_KINDS
    if steps:
        # The broker may make it a classic group, and lets no kafka-go consumer into one with new members.
        family = tuple(one for one in _family(chance, ends_observed=True) if one is not KAFKA_GO)
    elif switches:
        family = _family(chance, ends_observed=starts_observed != bool(switches % 2))
    processes = chance.choice((1, 1, 2))
    if steps:
        processes = 1  # several need a member log
    if fleet:
        processes = fleet_chance.randint(2, 4)
    # A broker puts a classic process with a known instance id in the place of a new-protocol member without a
    # rebalance, which is not safe; only a process that has the old member can see to it that it leaves first.
    may_be_static = not switches or processes == 1
    assignment_interval_ms = chance.choice((1_000, 1_000, 0))
    slow_network = broker_session_ms > 6_000 and chance.random() < 0.3
    clients = tuple(
        make_client(chance, f"c{n}", topics, calm_from_ms, family, may_be_static=may_be_static)
        for n in range(chance.randint(2, 5))
    )
    newcomers = tuple(
        make_client(chance, f"d{n}", topics, 1, family, may_be_static=may_be_static)
        for n in range(kinds.count(ANOTHER_COMES) + _MORE_CLIENTS * steps)
    )
    others = random.Random(f"others {seed}")  # noqa: S311  reproducible on purpose; who is drawn so changes nobody else
    if family is ALL_KINDS and others.random() < 0.15:
        clients += (_native(others, "n0", topics, calm_from_ms),)
    return Plan(
        seed=seed,
        topics=topics,
        broker_session_ms=broker_session_ms,
        broker_heartbeat_ms=broker_heartbeat_ms,
        assignment_interval_ms=assignment_interval_ms,
        processes=processes,
        hold_ups_ms=hold_ups_ms,
        slow_network=slow_network,
        fleet=fleet,
        starts_observed=starts_observed,
        clients=tuple(_or_through_the_proxy(others, client) for client in clients),
        newcomers=tuple(_or_through_the_proxy(others, client) for client in newcomers),
        faults=faults,
        calm_from_ms=calm_from_ms,
        hostiles=_hostiles(others, calm_from_ms, broker_session_ms),
    )


def _fleet_faults(chance: random.Random, until_ms: int) -> tuple[FaultPlan, ...]:
    """Choose what goes wrong in a fleet only, or more often there."""
    kinds = chance.choices(list(FLEET_FAULTS), list(FLEET_FAULTS.values()), k=chance.randint(1, 8))
    return tuple(FaultPlan(at_ms=chance.randint(1_000, until_ms), kind=kind) for kind in kinds)


def _native(others: random.Random, name: str, topics: dict[str, int], until_ms: int) -> ClientPlan:
    """Make one more member of the new protocol."""
    return ClientPlan(
        name=name,
        starts_ms=others.randint(0, until_ms // 2),
        habits=None,
        pace=Pace(),
        topics=frozenset(topics),
        instance_id=None,
    )


def _or_through_the_proxy(others: random.Random, client: ClientPlan) -> ClientPlan:
    """Route most members of the new protocol through the proxy, with commits; some idle after a while."""
    if client.habits is not None or others.random() < 0.3:
        return client
    commits_for_ms = others.choice((3_000, 12_000, ALWAYS_MS, ALWAYS_MS))
    return msgspec.structs.replace(client, through_proxy=True, commits_for_ms=commits_for_ms)


_SEVERAL_TURNS_MS = 40_000


def _hostiles(others: random.Random, calm_from_ms: int, broker_session_ms: int) -> tuple[HostilePlan, ...]:
    """Add one or two attackers to every fourth run.

    Attackers with READ on the group need a broker session longer than several turns: each of their connections that
    stalls delays a member's keep-alive by one (``turn_limit_s``). They could also end the member with one LeaveGroup,
    as they can in Kafka.
    """
    if others.random() < 0.75:
        return ()
    have_no_right = broker_session_ms < _SEVERAL_TURNS_MS
    return tuple(
        HostilePlan(
            name=f"h{n}",
            principal=others.choices(
                ("nobody", "mallory", "oscar", "trudy", "alice"),
                (3, 4, 3, 0, 0) if have_no_right else (3, 4, 3, 2, 2),
            )[0],
            starts_ms=others.randint(0, calm_from_ms // 2),
            pause_ms=others.choice((300, 1_000, 3_000)),
        )
        for n in range(others.choice((1, 1, 2)))
    )


def _family(chance: random.Random, *, ends_observed: bool) -> tuple[Habits, ...]:
    """Choose client kinds that can share a classic group.

    A kind that claims too much is kept out of a group that ends as a classic one: the leader leaves what it claims
    without an owner, which no proxy can repair.
    """
    family = chance.choice(FAMILIES)
    return tuple(habits for habits in family if not ends_observed or habits.claims is not KAFKA_PYTHON.claims)


def make_client(
    chance: random.Random,
    name: str,
    topics: dict[str, int],
    until_ms: int,
    family: tuple[Habits, ...] = ALL_KINDS,
    *,
    may_be_static: bool = True,
) -> ClientPlan:
    """Make a client of one of these kinds, or sometimes one of the new protocol among any kinds."""
    # Not among clients whose policy changes: the broker itself converts a classic group when one comes, also in the
    # middle of a cooperative rebalance, when that is not safe.
    native = chance.random() < 0.12 and family is ALL_KINDS
    habits = chance.choice(family)
    subscription = frozenset(topics) if chance.random() < 0.7 else frozenset({"orders"})
    session_timeout_ms = chance.choice((6_000, 8_000, 10_000))
    heartbeat_ms = session_timeout_ms // chance.choice((3, 3, 5))
    slow = habits.heartbeats_between_polls and chance.random() < 0.7
    static = not native and habits.is_static_capable and may_be_static and chance.random() < 0.25
    poll_ms = chance.randint(2_000, session_timeout_ms - 2_500) if slow else chance.choice((200, 500, 1_000))
    revoke_ms = chance.choice((10, 50, 500, 2_000))
    enough_ms = poll_ms + revoke_ms + 3_000  # it hears at one poll, gives up at the next, and commits
    if family is not ALL_KINDS:
        # A classic group never settles with a client for which that is too little, at a broker either.
        enough_ms = 2 * poll_ms + revoke_ms + 1_000
    return ClientPlan(
        name=name,
        starts_ms=chance.choice((0, 0, chance.randint(0, until_ms // 2))) + chance.randint(0, 500),
        habits=None if native else habits,
        pace=Pace(
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=habits.ignores_rebalance_ms
            + max(chance.choice((8_000, 10_000, 15_000)), enough_ms),
            heartbeat_ms=heartbeat_ms,
            poll_ms=poll_ms,
            commit_ms=chance.choice((1_000, 2_500, 5_000)),
            revoke_ms=revoke_ms,
        ),
        topics=subscription,
        instance_id=f"instance-{name}" if static else None,
    )
