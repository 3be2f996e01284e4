"""Go libraries' tests of consumer groups, from their modules: franz-go's, sarama's, and kafka-go's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lib.test_bed import kafka_version
from tools.judges.source import BUILD, Archive, Registry, go
from tools.judges.suite import Outcome, Result, build, one_line, output

TIMEOUT_S = 600
_END = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+)s\)$", re.MULTILINE)
_SAID = re.compile(
    r"^=== (?:RUN|CONT|NAME)\s+(?P<test>\S+)$|^\s+(?:\S+/)?(?P<line>\w+_test\.go:\d+: .*(?:\n\s+Error:.*)?)$",
    re.MULTILINE,
)
_OUTCOMES = {"PASS": Outcome.PASSED, "FAIL": Outcome.FAILED, "SKIP": Outcome.SKIPPED}


@dataclass(frozen=True)
class GoTests:
    """Tests of a Go package, each in a process."""

    name: str
    archive: Archive
    tests: tuple[str, ...]
    environment: Mapping[str, str]
    """What the tests are given; ``{bootstrap}`` stands for the broker's address."""
    package: str = "."
    tags: str = ""
    edits: tuple[tuple[str, str, str], ...] = ()
    """Where the set-up has a fixed address: files, what is there, and what comes in its place."""
    broker: Mapping[str, str] = field(default_factory=dict)
    own_brokers = ""
    topics = ()
    is_alone: bool = False
    has_consumer_protocol = False
    """None of them takes the protocol as a setting: franz-go's tests with 848 in their names have the new one by both
    entries, the others have no client of it."""

    @property
    def version(self) -> str:
        """The module and its version."""
        return f"{self.archive.package} {self.archive.version}"

    def prepare(self) -> None:
        """Fetch it, and build its tests."""
        if self._program.exists():
            return
        source = self.archive.unpacked(self.name, f"{self.archive.package}@v{self.archive.version}")
        for files, before, after in self.edits:
            for file in source.glob(files):
                text = file.read_text()
                if after not in text:  # as after a build that failed
                    file.write_text(text.replace(before, after))
        build(
            [go(), "test", "-c", f"-tags={self.tags}", "-o", self._program, self.package],
            source,
            CGO_ENABLED="0",
            GOFLAGS="-mod=mod",
            GOTOOLCHAIN="local",
        )

    def jobs(self) -> tuple[str, ...]:
        """Return the tests."""
        return self.tests

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:  # noqa: ARG002
        """Run one test with its subtests, or one subtest."""
        only = "/".join(f"^{part}$" for part in job.split("/"))
        command = [str(self._program), "-test.v", f"-test.run={only}", f"-test.timeout={TIMEOUT_S}s"]
        environment = {name: value.format(bootstrap=bootstrap) for name, value in self.environment.items()}
        printed = output(command, folder, TIMEOUT_S + 10, KAFKA_VERSION=kafka_version(), **environment)
        return results(job, printed)

    @property
    def _program(self) -> Path:
        return BUILD / f"{self.name}-{self.archive.version}.test"


def results(job: str, printed: str) -> list[Result]:
    """Return what became of a test and its subtests, by what ``go test -v`` printed.

    A test that has subtests is not listed itself. The reason of a failure is what the test's file printed last, as
    t.Fatal ends a test; what it logs comes before.
    """
    ended = [(name, _OUTCOMES[word], float(seconds)) for word, name, seconds in _END.findall(printed)]
    if not ended:
        last = next((line for line in reversed(printed.splitlines()) if line.strip()), "it printed nothing")
        return [Result(job, Outcome.FAILED, 0.0, f"it did not end: {one_line(last)}")]
    current, last_of = job, dict[str, str]()
    for said in _SAID.finditer(printed):
        if said["test"]:
            current = said["test"]
        else:
            last_of[current] = one_line(said["line"])
    return [
        Result(name, outcome, seconds, last_of.get(name, "") if outcome is Outcome.FAILED else "")
        for name, outcome, seconds in ended
        if not any(other.startswith(f"{name}/") for other, _, _ in ended)
    ]


FRANZ_GO = GoTests(
    name="franz-go",
    archive=Archive(
        Registry.GO,
        "github.com/twmb/franz-go",
        "1.22.3",
        "dba2c9bf27fbbcc47039630d6027c964e18ce36f73b67fd0301174d775fcfde0",
    ),
    package="./pkg/kgo",
    tests=("TestGroupSimple", "TestIssue648", "TestIssue865", "TestGroupETL", "TestTxnEtl"),
    environment={
        "KGO_SEEDS": "{bootstrap}",
        "KGO_TEST_RECORDS": "50000",  # a tenth of what they produce by default
        "KGO_TEST_RF": "1",
    },
)

SARAMA = GoTests(
    name="sarama",
    archive=Archive(
        Registry.GO,
        "github.com/IBM/sarama",
        "1.61.1",
        "a5ad3d6018945af59d4c851ee398784561e1c21bf99f870a4ff1fe4a5f3d9082",
    ),
    tags="functional",
    tests=(
        *("TestFuncJoinGroupVersionSelection", "TestFuncConsumerGroupPartitioning"),
        *("TestFuncConsumerGroupPartitioningStateful", "TestFuncConsumerGroupExcessConsumers"),
        *("TestFuncConsumerGroupRebalanceAfterAddingPartitions", "TestFuncConsumerGroupFuzzy"),
        *("TestFuncConsumerGroupOffsetDeletion", "TestFuncConsumerGroupCooperative"),
        *(
            "TestFuncConsumerGroupStaticMembership_Basic",
            "TestFuncConsumerGroupStaticMembership_RejoinAndLeave",
        ),
        *("TestFuncConsumerGroupStaticMembership_Fenced", "TestConsumerGroupDeadlock"),
        *("TestFuncOffsetManager", "TestFuncClientCoordinator", "TestFuncTxnProduceAndCommitOffset"),
        *("TestFuncAdminDescribeGroups", "TestFuncAdminListConsumerGroups", "TestFuncAdminDeleteGroup"),
        *("TestFuncAdminListConsumerGroupOffsetsBatch", "TestFuncAdminAlterConsumerGroupOffsets"),
    ),
    environment={"TOXIPROXY_ADDR": "http://{bootstrap}"},
    edits=(
        # Five brokers behind toxiproxy by default. These tests use neither its faults nor more than one broker.
        (
            "functional_test.go",
            "env.ToxiproxyClient = toxiproxy.NewClient(endpoint)",
            'env.KafkaBrokerAddrs = []string{strings.TrimPrefix(endpoint, "http://")}\n\treturn nil',
        ),
        ("functional_test.go", "FunctionalTestEnv.ToxiproxyClient.ResetState()", "error(nil)"),
        ("functional_test.go", "ReplicationFactor: 3", "ReplicationFactor: 1"),
        # It reads offsets right after the topic was created, when a single broker may not lead it yet.
        (
            "functional_consumer_group_test.go",
            "newest, err := client.GetOffset(topic, pn, OffsetNewest)",
            """newest, err := client.GetOffset(topic, pn, OffsetNewest)
\t\tif errors.Is(err, ErrNotLeaderForPartition) {
\t\t\ttime.Sleep(100 * time.Millisecond)
\t\t\tpn--
\t\t\tcontinue
\t\t}""",
        ),
    ),
    is_alone=True,
)

KAFKA_GO = GoTests(
    name="kafka-go",
    archive=Archive(
        Registry.GO,
        "github.com/segmentio/kafka-go",
        "0.4.49",
        "a6ad6e4c0a668f1ff3c39862bf3409b4211b9d1ab0ad15e256fbca24a105daba",
    ),
    tests=(
        *(
            "TestConsumerGroup",
            "TestGenerationExitsOnPartitionChange",
            "TestGenerationStartsFunctionAfterClosed",
        ),
        *("TestCloseLeavesGroup", "TestRebalanceTooManyConsumers"),
        *(
            f"TestReaderConsumerGroup/{part}"
            for part in (
                *("basic_handshake", "verify_offset_committed", "consumer_group_rebalance"),
                "verify_offset_committed_when_using_interval_committer",
                "rebalance_across_many_partitions_and_consumers",
                *("consumer_group_rebalance_across_topics", "consumer_group_reads_content_across_partitions"),
                *("Close_immediately_after_NewReader", "Close_immediately_after_NewReader#01"),
            )
        ),
        *("TestConsumerGroupWithTopic", "TestConsumerGroupWithGroupTopicsSingle"),
        *(
            "TestConsumerGroupWithGroupTopicsMultiple",
            "TestClient",
            "TestClientJoinGroup",
            "TestClientSyncGroup",
        ),
        *("TestClientHeartbeat", "TestClientLeaveGroup", "TestClientOffsetCommit", "TestClientDeleteOffset"),
        *("TestOffsetFetchRequestWithNoTopic", "TestOffsetFetchRequestWithOneTopic", "TestClientListGroups"),
        *("TestClientDescribeGroups", "TestClientDeleteGroups", "TestClientTxnOffsetCommit"),
    ),
    environment={"KAFKA_GO_BOOTSTRAP": "{bootstrap}"},
    edits=(
        ("[!e]*_test.go", '"localhost:9092"', "bootstrapOfTests()"),
        # Constants, of tests that do not run here.
        ("conn_test.go", "= bootstrapOfTests()", '= "localhost:9092"'),
        ("reader_test.go", "const broker = bootstrapOfTests()", 'const broker = "localhost:9092"'),
        ("client_test.go", 'TCP("localhost")', "TCP(bootstrapOfTests())"),
        (
            "client_test.go",
            "func newLocalClientAndTopic()",
            """func bootstrapOfTests() string { return os.Getenv("KAFKA_GO_BOOTSTRAP") }

func newLocalClientAndTopic()""",
        ),
        ("client_test.go", "import (", 'import (\n\t"os"'),
    ),
    broker={"auto.create.topics.enable": "true"},
)
