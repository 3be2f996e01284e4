"""librdkafka's tests of consumer groups: C programs in the npm package of Confluent's JavaScript client."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks.lib.test_bed import kafka_version
from tools.judges.source import Archive, Registry
from tools.judges.suite import Outcome, Result, build, one_line, output

ARCHIVE = Archive(
    Registry.NPM,
    "@confluentinc/kafka-javascript",
    "1.10.1",
    "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66",
)
INSIDE = "package/deps/librdkafka"
WITHOUT = ("gssapi", "ssl", "zstd", "curl")
"""What the build leaves out, so that it needs no libraries."""
PATIENCE = 2
"""So many times longer than on the authors' machines a test may wait, as several run at once."""
REPORT = "report.json"
"""The runner's buffer for its path has 128 bytes, so it is relative."""
TIMEOUT_S = 420
"""The tests end themselves before; this is for a runner that hangs."""

TESTS = (
    *(
        "0018_cgrp_term",
        "0019_list_groups",
        "0020_destroy_hang",
        "0022_consume_batch",
        "0026_consume_pause",
    ),
    *("0029_assign_offset", "0030_offset_commit", "0033_regex_subscribe", "0040_io_event"),
    *("0042_many_topics", "0045_subscribe_many_updates", "0050_subscribe_adds", "0051_assign_adds"),
    *("0056_balanced_group_mt", "0059_bsearch", "0060_op_prio", "0061_consumer_lag"),
    *("0067_empty_topic", "0069_consumer_add_parts", "0070_null_empty", "0083_cb_event"),
    *("0084_destroy_flags", "0089_max_poll_interval", "0091_max_poll_interval_timeout"),
    *("0093_holb_consumer", "0098_consumer_txn", "0099_commit_metadata"),
    *("0112_assign_unknown_part", "0118_commit_rebalance"),
    *("0122_buffer_cleaning_after_rebalance", "0127_fetch_queue_backoff", "0130_store_offsets"),
    *("0137_barrier_batch_consume", "0140_commit_metadata"),
)
"""Tests with a broker in which consumers of a group subscribe or commit. Left out: 0064 (needs TLS), 0103 and 0107
(three brokers), three of 0045 and 0109 (Kafka's scripts), 0119 and 0142 (SASL), 0049 (sockets that it breaks)."""
SUBTESTS = {
    "0045_subscribe_update": ("do_test_non_exist_and_partchange", "do_test_regex"),
    "0081_admin": (
        *("do_test_DeleteGroups", "do_test_ListConsumerGroups", "do_test_DescribeConsumerGroups"),
        *("do_test_DeleteConsumerGroupOffsets", "do_test_AlterConsumerGroupOffsets"),
        "do_test_ListConsumerGroupOffsets",
    ),
    "0102_static_group_rebalance": ("do_test_static_group_rebalance", "do_test_fenced_member"),
    "0113_cooperative_rebalance": (
        *("a_assign_tests", "b_subscribe_with_cb_test", "c_subscribe_no_cb_test"),
        *(
            "d_change_subscription_add_topic",
            "e_change_subscription_remove_topic",
            "f_assign_call_cooperative",
        ),
        *("g_incremental_assign_call_eager", "h_delete_topic", "i_delete_topic_2"),
        *(
            "j_delete_topic_no_rb_callback",
            "k_add_partition",
            "l_unsubscribe",
            "m_unsubscribe_2",
            "n_wildcard",
        ),
        *("s_subscribe_when_rebalancing", "t_max_poll_interval_exceeded", "u_multiple_subscription_changes"),
        *("v_commit_during_rebalance", "x_incremental_rebalances"),
    ),
    "0132_strategy_ordering": ("do_test_strategy_ordering",),
}
"""Tests of which each part runs by itself, as a test ends at its first failure. A part is a function's name."""
_SEPARATOR = "/"
_RANDOM = re.compile(r"rdkafkatest_rnd[0-9a-f]+_")
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class Librdkafka:
    """Its tests, each in a process, and those of ``SUBTESTS`` part by part."""

    name = "librdkafka"
    version = f"{ARCHIVE.package} {ARCHIVE.version}"
    broker: Mapping[str, str] = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    own_brokers = ""
    topics = ()
    has_consumer_protocol = True
    is_alone = False

    def prepare(self) -> None:
        """Fetch and build the library and its test runner (a few minutes on two cores, once)."""
        source = _source()
        if not (source / "tests" / "test-runner").exists():
            build_library(source)
            build(["make", "-j2", "-C", "tests", "test-runner"], source)

    def jobs(self) -> tuple[str, ...]:
        """Return the tests, and the parts of those that run by parts."""
        return (*TESTS, *(f"{test}{_SEPARATOR}{part}" for test, of in SUBTESTS.items() for part in of))

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:
        """Run one test of the runner, or one part of it."""
        test, _, part = job.partition(_SEPARATOR)
        (folder / "test.conf").write_text(
            f"bootstrap.servers={bootstrap}\ntest.topic.random=true\ntest.timeout.multiplier={PATIENCE}\n"
        )
        command = [str(_source() / "tests" / "test-runner"), "-p1", "-K", "-L"]
        began = time.monotonic()
        printed = output(
            command,
            folder,
            TIMEOUT_S,
            LD_LIBRARY_PATH=f"{_source() / 'src'}:{_source() / 'src-cpp'}",
            TESTS=test,
            SUBTESTS=part,
            TEST_CONSUMER_GROUP_PROTOCOL=protocol,
            TEST_KAFKA_VERSION=kafka_version(),
            TEST_REPORT=REPORT,
        )
        report = folder / REPORT
        return [result(job, report.read_text() if report.exists() else "", printed, time.monotonic() - began)]


def build_library(source: Path) -> None:
    """Build librdkafka and its C++ layer in their folder.

    :raises UnavailableError: it fails.
    """
    build(["./configure", *(f"--disable-{one}" for one in WITHOUT)], source)
    for part in ("src", "src-cpp"):
        build(["make", "-j2", "-C", part], source)


def result(job: str, report: str, said: str, seconds: float) -> Result:
    """Return what became of a test, by the runner's report and what it printed.

    A test of which no part ran has passed for the runner; here it was skipped.
    """
    test, _, part = job.partition(_SEPARATOR)
    said = _COLORS.sub("", said)
    try:
        state = msgspec.json.decode(report)["tests"][test]["state"]
    except (msgspec.DecodeError, KeyError):
        return Result(job, Outcome.FAILED, seconds, _why(said) or f"no report: {_last_line(said)}")
    if state == "PASSED":
        ran = not part or re.search(rf"\[ {re.escape(part)}\w*:\d+[^\]]*: PASS ", said)
        return Result(job, Outcome.PASSED if ran else Outcome.SKIPPED, seconds)
    if state in {"SKIPPED", "DNS"}:
        return Result(job, Outcome.SKIPPED, seconds)
    return Result(job, Outcome.FAILED, seconds, _why(said) or _last_line(said))


def _why(said: str) -> str:
    """Return where the first failure was, and what the test said of it; names of topics are random."""
    failure = re.search(r"^### Test .*? failed at (\S+?:\d+):.*\n(.*)$", said, re.MULTILINE)
    return "" if failure is None else f"{failure[1]}: {one_line(_RANDOM.sub('', failure[2]))}"


def _last_line(said: str) -> str:
    return next((line.strip()[:300] for line in reversed(said.splitlines()) if line.strip()), "no output")


def _source() -> Path:
    return ARCHIVE.unpacked("librdkafka", INSIDE)
