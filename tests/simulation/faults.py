"""The faults and changes of a run: each function takes a world and does one thing to it, as the seed decides."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.clients.caller import Caller
from tests.simulation.clients.classic import ClassicClient, Phase
from tests.simulation.clients.hostile import Hostile
from tests.simulation.network import Link
from tests.simulation.plan import (
    ANOTHER_COMES,
    COMMAND,
    OUTAGE,
    PRODUCER_COMMITS,
    SHOWS_OLD_STATE,
    STEPS,
    STEPS_CHANGE,
    SWITCH,
)
from tests.simulation.proxy_process import ShellConnection
from translation.policy.policy import Mode, Policy, Rule

if TYPE_CHECKING:
    from tests.simulation.world import World

_NEVER_MS = 10**9


def happen(world: "World", kind: str) -> None:
    """Run one of them, by its name in the plan."""
    world.watch.count(f"{kind}")
    _ALL[kind](world)


def _classic(world: "World") -> list[ClassicClient]:
    return [c for c in world.alive() if isinstance(c, ClassicClient) and not c.fenced]


def _pick(world: "World", things: list) -> object | None:
    return things[world.kernel.between(0, len(things) - 1)] if things else None


# -- clients -------------------------------------------------------------------------------------------------------


def _crash(world: "World", *, silently: bool = False) -> None:
    client = _pick(world, world.alive())
    if client is None:
        return
    kernel = world.kernel
    world.watch.fault(f"{client} crashes{', and nobody is told' if silently else ''}")
    client.stop("crashed", silently=silently)
    if kernel.chance(0.7):
        kernel.after(kernel.between(0, 9_000), _restart, world, client)


def _end_silently(world: "World") -> None:
    _crash(world, silently=True)


def _restart(world: "World", client: Caller) -> None:
    """Start the same application again, as a new process; a static one has the same instance id."""
    world.start(client.plan, f"{client.name}'")


def _leave(world: "World") -> None:
    client = _pick(world, [c for c in world.alive() if not getattr(c, "fenced", False)])
    if client is not None:
        world.watch.note(client, "is to stop")
        client.close()
        if world.kernel.chance(0.6):
            world.kernel.after(world.kernel.between(200, 6_000), _restart, world, client)


def _same_instance(world: "World") -> None:
    client = _pick(world, [c for c in _classic(world) if c.instance_id is not None])
    if client is not None:
        world.watch.fault(f"another process has the instance id of {client}, which still runs")
        _restart(world, client)


def _another_client(world: "World") -> None:
    plan = world.newcomers.popleft()
    world.start(plan, plan.name)


def _rejoin(world: "World") -> None:
    client = _pick(world, [c for c in _classic(world) if c.phase is Phase.STABLE])
    if client is not None:
        world.watch.note(client, "rejoins by itself")
        client.wants_rejoin = True


def _resubscribe(world: "World") -> None:
    client = _pick(world, _classic(world))
    if client is None:
        return
    topics = frozenset(world.plan.topics)
    client.topics = topics if client.topics != topics else frozenset({"orders"})
    world.watch.note(client, f"subscribes to {', '.join(sorted(client.topics))}")
    if client.phase is Phase.STABLE:
        client.wants_rejoin = True


def _zombie_commit(world: "World") -> None:
    """Send a commit from a thread of the application that still has an older generation."""
    client = _pick(
        world, [c for c in _classic(world) if c.phase is Phase.STABLE and c.previous_generation >= 0]
    )
    if client is not None:
        generation = client.previous_generation
        world.watch.note(client, f"has a late thread that commits with generation {generation}")
        client.commit(generation=generation)


def _producer_commits(world: "World") -> None:
    """Have a client's producer commit what the client works on through another replica, at once or much later."""
    client: Any = _pick(world, [c for c in _classic(world) if c.held and c.generation >= 0 and c.member_id])
    if client is not None:
        kernel = world.kernel
        after_ms = kernel.between(100, 12_000) if kernel.chance(0.5) else 0
        world.producer_of(client).commit(after_ms=after_ms)


# -- connections ---------------------------------------------------------------------------------------------------


def _honest_connections(world: "World") -> list[ShellConnection]:
    """Return connections of honest clients: attackers handle their own, so a plan is the same without them."""
    return [
        shell
        for process in world.processes
        for shell in process.connections.values()
        if not isinstance(shell.client.near, Hostile)
    ]


def _client_links(world: "World") -> list[Link]:
    return [shell.client for shell in _honest_connections(world) if shell.client_open]


def _upstream_links(world: "World") -> list[Link]:
    return [shell.upstream for shell in _honest_connections(world)]


def _cut(world: "World", link: Link | None) -> None:
    if link is not None:
        kernel = world.kernel
        world.watch.fault(f"{link} breaks")
        _broken(world, link)
        link.cut(
            near_hears_ms=kernel.between(0, 400),
            far_hears_ms=kernel.between(0, 9_000) if kernel.chance(0.5) else 0,
        )


def _cut_client(world: "World") -> None:
    _cut(world, _pick(world, _client_links(world)))


def _cut_upstream(world: "World") -> None:
    _cut(world, _pick(world, _upstream_links(world)))


def _lose(world: "World", links: list[Link]) -> None:
    """Lose the next answer on a connection, and the connection with it: the client does not know the outcome."""
    link = _pick(world, links)
    if link is None:
        return

    def breaks() -> None:
        world.watch.fault(f"an answer on {link} is lost, and the connection breaks")
        world.watch.count("answers lost")
        _broken(world, link)
        link.cut(near_hears_ms=world.kernel.between(0, 400), far_hears_ms=world.kernel.between(0, 400))

    link.to_near.loses_next = breaks


def _lose_for_client(world: "World") -> None:
    _lose(world, _client_links(world))


def _lose_for_proxy(world: "World") -> None:
    _lose(world, _upstream_links(world))


def _stall(world: "World", link: Link | None) -> None:
    if link is not None:
        kernel = world.kernel
        pipe = link.to_far if kernel.chance(0.5) else link.to_near
        for_ms = kernel.between(200, 9_000)
        world.watch.fault(f"{link} towards {pipe.party} stalls for {for_ms} ms")
        _broken(world, link, for_ms)
        pipe.slow_until_ms = kernel.now_ms + for_ms


def _stall_client(world: "World") -> None:
    _stall(world, _pick(world, _client_links(world)))


def _stall_upstream(world: "World") -> None:
    _stall(world, _pick(world, _upstream_links(world)))


def _race(world: "World") -> None:
    """Delay a JoinGroup for so long that its client sends another one, on another connection."""
    joiners = [c for c in _classic(world) if c.habits.impatient_after_ms and c.phase is Phase.STABLE]
    client = _pick(world, joiners)
    link = None if client is None else client.lines.get("group")
    if link is not None:
        world.watch.fault(f"{client} joins again while {link} stalls")
        _broken(world, link, 4_000)
        link.to_far.slow_until_ms = world.kernel.now_ms + world.kernel.between(1_500, 4_000)
        client.wants_rejoin = True


def _join_late(world: "World") -> None:
    """Delay a client's messages, a JoinGroup among them, for longer than its session timeout."""
    client = _pick(world, [c for c in _classic(world) if c.phase is Phase.STABLE])
    if client is not None:
        for_ms = client.pace.session_timeout_ms + world.kernel.between(500, 3_000)
        world.watch.fault(f"{client} joins again while all its connections stall for {for_ms} ms")
        for link in client.lines.values():
            _broken(world, link, for_ms)
            link.to_far.slow_until_ms = world.kernel.now_ms + for_ms
        client.wants_rejoin = True


def _broken(world: "World", link: Link, for_ms: int = 0) -> None:
    """Record that the connection from this link's client to the broker is broken, now and for a while."""
    for process in world.processes:
        for shell in process.connections.values():
            if link in (shell.client, shell.upstream):
                world.watch.standings[shell.client.near].is_cut_off_for(for_ms)


def _everybody_broken(world: "World", for_ms: int = 0) -> None:
    for standing in world.watch.standings.values():
        standing.is_cut_off_for(for_ms)


# -- processes -----------------------------------------------------------------------------------------------------


def _proxy_crash(world: "World") -> None:
    process = _pick(world, [p for p in world.processes if p.up])
    if process is not None:
        down_ms = world.kernel.between(0, 3_000)
        world.watch.fault(f"{process} crashes, and is back in {down_ms} ms")
        _everybody_broken(world, down_ms)
        process.crash()
        world.kernel.after(down_ms, process.start)


def _proxy_pause(world: "World") -> None:
    process = _pick(world, [p for p in world.processes if p.up])
    if process is not None:
        kernel = world.kernel
        for_ms = kernel.between(500, 9_000)
        timers_first = kernel.chance(0.5)
        world.watch.fault(f"{process} stands still for {for_ms} ms")
        _everybody_broken(world, for_ms)
        process.pause()
        kernel.after(for_ms, lambda: process.resume(timers_first=timers_first))


def _clock_jumps(world: "World") -> None:
    process = _pick(world, [p for p in world.processes if p.up])
    if process is not None:
        by_ms = world.kernel.between(200, 15_000)
        world.watch.fault(f"the clock of {process} jumps by {by_ms} ms")
        for client, standing in world.watch.standings.items():
            if client.alive and world.process_of(client) is process:
                standing.age(by_ms)
        world.watch.steps.jumped_ms += by_ms
        process.jump(by_ms)


def _move(world: "World") -> None:
    client = _pick(world, _classic(world))
    if client is not None and len(world.processes) > 1:
        home = (world.homes.get(client.host, 0) + 1) % len(world.processes)
        world.homes[client.host] = home
        world.watch.fault(f"{client} is served by {world.processes[home]} from now on")
        world.watch.standings[client].is_cut_off_for(0)
        world.watch.standings[client].moved = True
        client.close_lines()


def _go_and_come_back(world: "World") -> None:
    """Have a client go to another replica and back, where its connections are still open and nothing is read.

    It stays away for half of its session at least. It would leave an open connection earlier only if the broker there
    had said that it does not coordinate the group, and then the connection confirms nothing any more.
    """
    client = _pick(world, [c for c in _classic(world) if c.phase is Phase.STABLE])
    if client is None or len(world.processes) < 2:
        return
    kernel = world.kernel
    home = world.homes.get(client.host, 0)
    elsewhere = (home + kernel.between(1, len(world.processes) - 1)) % len(world.processes)
    here = world.processes[home]
    away_ms = client.pace.session_timeout_ms // 2 + kernel.between(100, 6_000)
    world.watch.fault(f"{client} goes to {world.processes[elsewhere]}, and in {away_ms} ms back to {here}")
    if here.member_log is not None:
        here.member_log.cannot_read_until_ms = kernel.now_ms + away_ms + 2_000
    standing = world.watch.standings[client]
    standing.is_cut_off_for(away_ms)
    standing.moved = True
    left = client.leave_lines()
    world.homes[client.host] = elsewhere

    def back() -> None:
        world.homes[client.host] = home
        client.return_to_lines(left)

    kernel.after(away_ms, back)


def _fail_over(world: "World", *, may_cut: bool = True) -> None:
    kernel = world.kernel
    if world.broker.trouble is None:
        away_ms, loading_ms = kernel.between(100, 2_000), kernel.between(0, 2_000)
        cuts = may_cut and kernel.chance(0.5)
        world.watch.fault(f"the coordinator fails over ({away_ms} ms away, {loading_ms} ms loading)")
        _everybody_broken(world, away_ms + loading_ms)
        world.broker.fail_over(away_ms=away_ms, loading_ms=loading_ms, cuts=cuts)


def _fail_over_and_show_old_state(world: "World") -> None:
    kernel = world.kernel
    if world.broker.trouble is None:
        for_ms = kernel.between(500, 7_000)
        knows = kernel.chance(0.5)
        world.watch.fault(
            f"the coordinator is deposed, {'knows it' if knows else 'does not know'}, and answers for {for_ms} ms more"
        )
        _everybody_broken(world, for_ms)
        world.broker.leave_deposed(for_ms=for_ms, knows=knows)
        _fail_over(world, may_cut=False)


# -- the member log ------------------------------------------------------------------------------------------------


def _a_while_ms(world: "World") -> int:
    return (500, 1_500, 3_000, 10_000, 20_000)[world.kernel.between(0, 4)]


def _log_away(world: "World") -> None:
    for_ms = _a_while_ms(world)
    world.watch.fault(f"the member log is away for {for_ms} ms")
    for process in world.processes:
        if process.member_log is not None:
            until_ms = world.kernel.now_ms + for_ms
            process.member_log.cannot_read_until_ms = process.member_log.cannot_write_until_ms = until_ms
    _everybody_broken(world, for_ms)


def _pick_of_a_fleet(world: "World") -> Any:
    """Pick a replica that has a member log; None if there is none."""
    return _pick(world, [p for p in world.processes if p.up and p.member_log is not None])


def _log_of_one(world: "World", *, reads: bool) -> None:
    process = _pick_of_a_fleet(world)
    if process is not None:
        for_ms = _a_while_ms(world)
        world.watch.fault(f"{process} can't {'read' if reads else 'write'} the member log for {for_ms} ms")
        way, until_ms = process.member_log, world.kernel.now_ms + for_ms
        if reads:
            way.cannot_read_until_ms = until_ms
        else:
            way.cannot_write_until_ms = until_ms
        _everybody_broken(world, for_ms)


def _log_unreadable(world: "World") -> None:
    _log_of_one(world, reads=True)


def _log_unwritable(world: "World") -> None:
    _log_of_one(world, reads=False)


def _log_fails(world: "World") -> None:
    process = _pick_of_a_fleet(world)
    if process is not None:
        world.watch.fault(f"what {process} was writing to the member log fails")
        _everybody_broken(world)
        process.member_log.fail()


def _log_lost(world: "World") -> None:
    process = _pick_of_a_fleet(world)
    if process is not None:
        world.watch.fault(f"{process} has to read the member log again")
        _everybody_broken(world)
        process.member_log.lose()


def _replace(world: "World") -> None:
    """Start a replica anew at once, under the same name."""
    process = _pick(world, [p for p in world.processes if p.up])
    if process is not None:
        world.watch.fault(f"{process} is replaced")
        _everybody_broken(world)
        process.crash()
        process.start()


# -- outages -------------------------------------------------------------------------------------------------------


def _outage(world: "World") -> None:
    """The brokers are away, the member log, or both; each is back at its own moment."""
    kernel, watch = world.kernel, world.watch
    brokers_ms = (0, 5_000, 12_000, 20_000, 35_000, 60_000)[kernel.between(0, 5)]
    log_ms = max(0, brokers_ms + kernel.between(-4_000, 4_000))
    if world.log_topic is None:
        log_ms, brokers_ms = 0, brokers_ms or 15_000
    elif kernel.chance(0.3):
        log_ms = (0, 12_000, 24_000)[kernel.between(0, 2)]  # after 45 s a client is told to begin anew
    loading_ms = kernel.between(0, 2_000)
    watch.fault(f"the brokers are away for {brokers_ms} ms, the member log for {log_ms} ms")
    watch.count(
        f"outages of {' and '.join(['brokers'] * bool(brokers_ms) + ['log'] * bool(log_ms)) or 'nothing'}"
    )
    _everybody_broken(world, max(brokers_ms + loading_ms, log_ms))
    watch.outages.begins(world)
    if brokers_ms:
        world.broker.go_down(for_ms=brokers_ms, loading_ms=loading_ms)
    if world.log_topic is not None and log_ms:
        world.log_topic.go_away(log_ms)
    over_ms = max(brokers_ms + loading_ms if brokers_ms else 0, log_ms)
    kernel.after(over_ms, watch.outages.over, world)
    for _ in range(kernel.between(0, 2)):
        kernel.after(kernel.between(0, max(over_ms - 1, 0)), _crash_in_outage, world)


def _crash_in_outage(world: "World") -> None:
    """A client ends for good while nobody can be told; another one goes on, so that somebody needs its partitions."""
    if len(_classic(world)) > 1:
        client = _pick(world, _classic(world))
        assert isinstance(client, ClassicClient)
        world.watch.fault(f"{client} crashes in the outage")
        client.stop("crashed")


# -- topics and policy ---------------------------------------------------------------------------------------------


def _add_partitions(world: "World") -> None:
    name = sorted(world.plan.topics)[world.kernel.between(0, len(world.plan.topics) - 1)]
    topic = world.broker.image.by_name(name)
    if topic is not None and topic.partitions < 9:
        count = topic.partitions + world.kernel.between(1, 2)
        world.watch.note("topics", f"{name} has {count} partitions from now on")
        world.broker.set_topic(name, count)


def _recreate_topic(world: "World") -> None:
    name = sorted(world.plan.topics)[world.kernel.between(0, len(world.plan.topics) - 1)]
    kernel = world.kernel
    partitions = kernel.between(1, 4)
    world.watch.fault(f"topic {name} is deleted, and created again with {partitions} partitions")
    if kernel.chance(0.5):
        world.broker.set_topic(name, partitions, new_id=True)
        world.learn_topics()
    else:
        world.broker.delete_topic(name)
        kernel.after(kernel.between(100, 4_000), _create, world, name, partitions)


def _create(world: "World", name: str, partitions: int) -> None:
    world.broker.set_topic(name, partitions, new_id=True)
    world.learn_topics()


def _reload_policy(world: "World") -> None:
    assignor = ("range", "uniform", None)[world.kernel.between(0, 2)]
    mode = world.policy.rules[0].mode
    if world.steps and mode is Mode.TRANSLATE:
        world.policy = world.translating(assignor=assignor)
    else:
        world.policy = Policy(rules=(Rule(pattern=".*", mode=mode, assignor=assignor),))
    world.watch.note("policy", f"is read again, with assignor {assignor}")
    for process in world.processes:
        process.read_policy()


def _switch_mode(world: "World") -> None:
    before = world.policy.rules[0].mode
    mode = Mode.OBSERVE if before is Mode.TRANSLATE else Mode.TRANSLATE
    if world.steps and mode is Mode.TRANSLATE:
        world.policy = world.translating()
    else:
        world.policy = Policy(rules=(Rule(pattern=".*", mode=mode),))
    world.watch.note("policy", f"changes to {mode}")
    world.watch.count(f"policy changes to {mode}")
    for process in world.processes:
        world.kernel.after(world.kernel.between(0, 1_500), process.read_policy)


def _change_steps(world: "World") -> None:
    world.steps = STEPS[world.kernel.between(0, len(STEPS) - 1)]
    world.watch.note("policy", f"has the steps {world.steps} from now on")
    if world.policy.rules[0].mode is Mode.TRANSLATE:
        world.policy = world.translating()
        for process in world.processes:
            world.kernel.after(world.kernel.between(0, 1_500), process.read_policy)


_ALL: dict[str, Callable[["World"], None]] = {
    "a client crashes": _crash,
    "a client ends without a word": _end_silently,
    "a client leaves": _leave,
    "a client rejoins by itself": _rejoin,
    "a client changes its subscription": _resubscribe,
    ANOTHER_COMES: _another_client,
    "an instance id is used twice": _same_instance,
    "a late thread commits": _zombie_commit,
    "a client's connection breaks": _cut_client,
    "a client's connection stalls": _stall_client,
    "an upstream connection breaks": _cut_upstream,
    "JoinGroups of a client race": _race,
    "a JoinGroup comes too late": _join_late,
    "an upstream connection stalls": _stall_upstream,
    "an answer to a client is lost": _lose_for_client,
    "an answer of the broker is lost": _lose_for_proxy,
    "a proxy crashes": _proxy_crash,
    "a proxy stands still": _proxy_pause,
    "a proxy's clock jumps": _clock_jumps,
    "a client moves to another replica": _move,
    "a client goes to another replica and back": _go_and_come_back,
    "the member log is away": _log_away,
    "a replica can't read the member log": _log_unreadable,
    "a replica can't write the member log": _log_unwritable,
    "writing the member log fails": _log_fails,
    "the member log is read again": _log_lost,
    "a replica is replaced": _replace,
    OUTAGE: _outage,
    "the coordinator fails over": _fail_over,
    SHOWS_OLD_STATE: _fail_over_and_show_old_state,
    PRODUCER_COMMITS: _producer_commits,
    "partitions are added": _add_partitions,
    "a topic is created again": _recreate_topic,
    "the policy is read again": _reload_policy,
    SWITCH: _switch_mode,
    STEPS_CHANGE: _change_steps,
    COMMAND: lambda world: world.people.say_something(),
}
