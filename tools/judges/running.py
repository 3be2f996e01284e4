"""Runs a suite's jobs straight at a real Kafka and through Epochgate, several at once."""

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.test_bed import Gateway, kafka
from tools.judges.comparison import Attempt, Entry, Verdict, compare
from tools.judges.source import BUILD
from tools.judges.suite import INITIAL_REBALANCE_DELAY, MIN_SESSION_TIMEOUT, Suite
from tools.kafka.settings import GROUP_DEFAULTS

POLICY = "default: translate\n"
"""All groups are translated."""

Say = Callable[[str], None]


def run(suite: Suite, jobs: Sequence[str], runs: int, at_once: int, say: Say = print) -> list[Attempt]:
    """Run each of these jobs so often by both entries, on a broker with Kafka's defaults for groups.

    The jobs whose tests differ then run as often with the library's own client of the new protocol, if it has one.
    A job never runs beside itself: librdkafka's regular expressions match the topics of another run of the same test.
    What each process printed is kept in build/judges/runs.
    """
    turns = {job: threading.Lock() for job in jobs}
    with _bootstraps(suite) as bootstraps:

        def attempt(task: tuple[int, str, Entry]) -> list[tuple[str, Attempt]]:
            number, job, entry = task
            folder = BUILD / "runs" / suite.name / job.replace("/", "-") / f"{entry}-{number}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            protocol = "consumer" if entry is Entry.NATIVE else "classic"
            with turns[job]:
                results = suite.run(job, bootstraps[entry], protocol, folder)
            for one in results:
                say(
                    f"{suite.name} {one.test} {entry} {number}: {one.outcome} {one.seconds:.0f} s {one.reason}"
                )
            return [
                (job, Attempt(suite.name, one.test, entry, one.outcome, one.seconds, one.reason))
                for one in results
            ]

        with ThreadPoolExecutor(1 if suite.is_alone else at_once) as pool:
            both = (Entry.STRAIGHT, Entry.THROUGH)
            tasks = [(number, job, entry) for number in range(runs) for entry in both for job in jobs]
            found = [one for of_task in pool.map(attempt, tasks) for one in of_task]
            if suite.has_consumer_protocol:
                differing = _jobs_that_differ(found)
                tasks = [(number, job, Entry.NATIVE) for number in range(runs) for job in differing]
                found += [one for of_task in pool.map(attempt, tasks) for one in of_task]
    return [one for _, one in found]


@contextlib.contextmanager
def _bootstraps(suite: Suite) -> Iterator[Mapping[Entry, str]]:
    """Run a broker and a proxy in front, unless the suite has its own; yield the addresses by entry."""
    if suite.own_brokers:
        yield {entry: entry.value for entry in Entry}
        return
    overrides = {**GROUP_DEFAULTS, **suite.broker}
    with kafka(**{key.replace(".", "_"): value for key, value in overrides.items()}) as cluster:
        if suite.topics:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in suite.topics]).values():
                created.result()
        proxy = Gateway(
            cluster.bootstrap,
            BUILD / "proxy" / suite.name,
            initial_rebalance_delay_ms=int(overrides[INITIAL_REBALANCE_DELAY]),
            policy=POLICY,
            more=f"limits: {{session_timeout_min_ms: {overrides[MIN_SESSION_TIMEOUT]}}}\n",
        )
        try:
            proxy.start()
            straight = dict.fromkeys(Entry, cluster.bootstrap)
            yield {**straight, Entry.THROUGH: proxy.bootstrap}
        finally:
            proxy.stop()


def _jobs_that_differ(found: Sequence[tuple[str, Attempt]]) -> list[str]:
    rows = compare([attempt for _, attempt in found], ())
    tests = {row.test for row in rows if row.verdict is Verdict.DIFFERS}
    return list(dict.fromkeys(job for job, attempt in found if attempt.test in tests))
