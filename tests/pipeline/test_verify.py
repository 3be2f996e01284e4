"""`epochgate verify`: equal to the audit on Spark, and what it says of files, of a topic and of bad input."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from support.broker import Kafka
from typer.testing import CliRunner, Result

from pipeline.verify import files
from proxy.cli import command_line
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline.journal_lines import BAD
from tests.pipeline.real_journal import KEPT, PLANTS, kept, save
from tests.pipeline.rules.journals import audited, differences, of_report, saved, verified
from tests.pipeline.rules.test_verifier import WHOLE, event

pytestmark = pytest.mark.timeout(600)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command_line(), ["verify", *map(str, arguments)])


def reported(*arguments: object) -> dict[str, Any]:
    """The report as JSON."""
    answer = run(*arguments, "-o", "json")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_it_finds_what_the_audit_on_spark_finds(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    folder = saved(seed, tmp_path / "journal")
    assert differences(of_report(verified(folder)), audited(spark, folder, tmp_path / "out")) == []


@pytest.mark.parametrize("fault", PLANTS)
def test_it_finds_what_the_audit_on_spark_finds_in_a_recorded_migration(
    fault: str, spark: SparkSession, tmp_path: Path
) -> None:
    folder = save(PLANTS[fault](kept(KEPT))[0], tmp_path / "journal")
    assert differences(of_report(verified(folder)), audited(spark, folder, tmp_path / "out")) == []


@pytest.mark.parametrize(
    ("events", "verdict", "code"),
    [
        (WHOLE, "proven", ExitCode.SUCCESS),
        (WHOLE[1:], "unproven", ExitCode.UNDECIDED),
        ([*WHOLE[:3], event(4, "assigned", "m2", [1])], "violated", ExitCode.PROBLEM_FOUND),
    ],
)
def test_the_exit_code_says_the_verdict(events: Any, verdict: str, code: ExitCode, tmp_path: Path) -> None:
    folder = save(list(events), tmp_path)
    answer = run("--journal", folder)
    assert answer.exit_code == code
    assert f"g      {verdict}" in answer.stdout
    (certificate,) = reported("--journal", folder)["certificates"]
    assert (certificate["group"], certificate["verdict"]) == ("g", verdict)


def test_a_violation_is_told_with_its_members_and_events(tmp_path: Path) -> None:
    save([*WHOLE[:3], event(4, "assigned", "\x1b[31mm2", [1])], tmp_path)
    answer = run("--journal", tmp_path)
    assert r"g: t-1 was owned by m1 and \x1b[31mm2 for 0 ms" in answer.stdout
    assert "(events a.1.3, a.1.4, no end)" in answer.stdout


def test_a_group_by_name_and_a_window(tmp_path: Path) -> None:
    other = [event(seq, "joined", "m9", [], group="other") for seq in (10, 12)]
    folder = save([*WHOLE, *other], tmp_path)  # 11 is missing
    assert [one["group"] for one in reported("--journal", folder)["certificates"]] == ["g", "other"]
    (one,) = reported("--journal", folder, "--group", "g")["certificates"]
    assert one["verdict"] == "unproven"
    later = [event(seq, "epoch_moved", "m9", [], group="other") for seq in (13, 14)]
    save([*WHOLE, *other, *later], tmp_path)
    (one,) = reported("--journal", folder, "--group", "g", "--window", "1s")["certificates"]
    assert (one["verdict"], one["from_us"]) == ("proven", 1_013_000_000)


def test_files_that_are_not_finished_are_named_and_read_if_asked(tmp_path: Path) -> None:
    save(list(WHOLE), tmp_path)
    (file,) = tmp_path.rglob("*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:4]))
    file.with_name("_a.1.2.jsonl").write_text("".join(lines[4:]) + lines[0][:20])
    report = reported("--journal", tmp_path)
    assert report["journal"]["unfinished"] == ["_a.1.2.jsonl"]
    assert report["certificates"][0]["why"] == ["_a.1.2.jsonl is not finished"]
    live = reported("--journal", tmp_path, "--live")
    assert (live["certificates"][0]["verdict"], live["journal"]["quarantined"]) == ("proven", {})


def test_one_file_with_the_events_of_all_processes_is_as_good(tmp_path: Path) -> None:
    """As a consumer of the topic writes it."""
    events = PLANTS["lost revocation"](kept(KEPT))[0]
    apart = reported("--journal", save(events, tmp_path / "apart"))
    (tmp_path / "together").mkdir()
    text = "".join(f"{json.dumps(one)}\n" for one in events)
    (tmp_path / "together" / "journal.jsonl").write_text(text)
    assert reported("--journal", tmp_path / "together")["certificates"] == apart["certificates"]


def test_bad_lines_are_counted_by_reason_and_the_others_judged(tmp_path: Path) -> None:
    (file,) = save(list(WHOLE), tmp_path).rglob("*.jsonl")
    file.write_bytes(
        file.read_bytes() + "".join(f"{text}\n" for text in BAD).encode() + b"\xff\xfe\n" + b"\0" * 9
    )
    report = reported("--journal", tmp_path)
    assert sum(report["journal"]["quarantined"].values()) == len(BAD) + 2
    assert report["journal"]["events"] == len(WHOLE)
    assert report["certificates"][0]["gaps"]["count"] == 2
    assert "quarantined" in run("--journal", tmp_path).stdout


def test_a_journal_from_files_and_topic_is_refused(tmp_path: Path) -> None:
    save([*WHOLE, *({**one, "boot": "1-topic"} for one in WHOLE)], tmp_path)
    answer = run("--journal", tmp_path)
    assert answer.exit_code == ExitCode.FAILED
    assert "both from its files and from its topic" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), ExitCode.USAGE, "give either --journal, or --from and --topic"),
        (("--journal", ".", "--topic", "t"), ExitCode.USAGE, "give either --journal"),
        (("--journal", ".", "--window", "half an hour"), ExitCode.USAGE, "expected a duration such as"),
        (("--journal", "nowhere"), ExitCode.FAILED, "nowhere is not a folder"),
        (("--journal", "."), ExitCode.FAILED, "has no files of a journal"),
        (("--from", "127.0.0.1:1", "--topic", "t"), ExitCode.FAILED, "127.0.0.1:1 does not answer: "),
    ],
)
def test_bad_input_is_told_in_a_line(
    arguments: tuple[str, ...], code: ExitCode, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.kafka_clients.TIMEOUT_S", 0.5)
    answer = run(*arguments)
    assert (answer.exit_code, said in answer.stderr) == (code, True), answer.output


def test_an_empty_journal_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.1.1.jsonl").touch()
    answer = run("--journal", tmp_path)
    assert answer.exit_code == ExitCode.UNDECIDED
    assert "no group to certify" in answer.stdout


def test_it_needs_neither_spark_nor_what_comes_with_it(tmp_path: Path) -> None:
    save(list(WHOLE), tmp_path)
    program = (
        "import sys\nfrom proxy.cli import command_line\n"
        f"command_line()(['verify', '--journal', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'confluent_kafka'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.kafka
def test_a_topic_proves_what_the_files_prove(kafka: Kafka, tmp_path: Path) -> None:
    """A group's events are in one partition, processes are mixed there, and a batch is there twice."""
    folder = saved(5, tmp_path)
    topic = kafka.new_topic("journal", partitions=3)
    by_process = [
        [line for path in paths for line in path.read_bytes().splitlines()]
        for paths in files.find(folder).of_processes.values()
    ]
    mixed = [line for lines in itertools.zip_longest(*by_process) for line in lines if line]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for line in [*mixed, *mixed[:500]]:
        group = json.loads(line)["group"]
        producer.produce(topic, line, key=group or None, partition=hash_of(group) % 3)
    assert producer.flush(60) == 0
    ours = reported("--from", kafka.bootstrap, "--topic", topic)
    theirs = reported("--journal", folder)
    assert ours["certificates"] == theirs["certificates"]
    assert ours["journal"]["events"] == theirs["journal"]["events"]
    assert ours["journal"]["duplicates"] == theirs["journal"]["duplicates"] + 500

    producer.produce(topic, None, partition=0)  # a tombstone, which is no event
    assert producer.flush(60) == 0
    ours = reported("--from", kafka.bootstrap, "--topic", topic)
    assert ours["journal"]["quarantined"] == {"not JSON": 1}
    assert "1 lines can't be read" in {why for one in ours["certificates"] for why in one["why"]}
    missing = run("--from", kafka.bootstrap, "--topic", "not-there")
    assert missing.exit_code == ExitCode.FAILED
    assert "topic not-there" in missing.stderr


def hash_of(text: str) -> int:
    return sum(text.encode())
