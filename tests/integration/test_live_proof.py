"""The live verification: a step waits for its proof, and a killed proxy leaves a time that is not proven."""

import json
import subprocess
import sys
import urllib.error
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.cimpl import NewTopic
from support import ROOT
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.waiting import eventually

from proxy.proof.journal_reader import AHEAD_MS, AT_ONCE, JournalReader

pytestmark = pytest.mark.kafka

PARTITIONS = 6
PROOF_S = 10
SAME = (
    "verdict",
    "from_us",
    "until_us",
    "events",
    "members",
    "translated_since_us",
    "owners",
    "gaps",
    "pauses",
)
POLICY = """\
default: observe
rules:
  - {{pattern: ".*", mode: translate, steps: [1, 100%], hold_s: 0, proof_s: {proof_s}{more}}}
"""
OVERRIDE = ', unproven_override: "INC-7, Anna"'


def proof(proxy: Proxy, group: str):
    """What /api/groups/{group} says of its proof; nothing before the group is known."""
    try:
        return proxy.group(group)["proof"] or {}
    except urllib.error.HTTPError:
        return {}


def metric(proxy: Proxy, series: str) -> float:
    """The value of one series."""
    (value,) = [line.split()[-1] for line in proxy.metrics().splitlines() if line.startswith(f"{series} ")]
    return float(value)


def move(proxy: Proxy, group: str) -> str:
    """How far the group's move is, in words."""
    return (proxy.group(group)["move"] or {}).get("text", "")


def by_verify(proxy: Proxy, group: str):
    """The certificate that `epochgate verify` makes of what the proxy has written so far."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "proxy",
            "verify",
            "--journal",
            proxy.folder / "journal",
            "--live",
            "-o",
            "json",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return next(one for one in json.loads(done.stdout)["certificates"] if one["group"] == group)


def converted(kafka, group: str) -> int:
    """How many members the broker has that speak the new protocol."""
    described = kafka.describe(group)
    found = [] if described is None else described.members
    return Counter(one.member_type for one in found)["consumer"]


@pytest.mark.scenario("a step waits until its group is proven, in one process")
def test_the_next_step_begins_when_this_one_is_proven_and_the_certificate_is_that_of_verify(
    kafka, consumers, folder: Path, group
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    with running_proxy(
        kafka.bootstrap,
        folder / "proxy",
        policy=POLICY.format(proof_s=PROOF_S, more=""),
        journal={"path": "journal", "file_max_age_s": 1},
        verify={"live": True},
    ) as proxy:
        for _ in range(3):
            consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range")
        eventually(lambda: converted(kafka, group), lambda found: found == 1, what="the first step is taken")
        waiting = eventually(
            lambda: move(proxy, group),
            lambda text: f"of {PROOF_S} s" in text,
            what="the settled step is proven for a part of the time",
        )
        assert waiting.startswith("step 1 of 2 (1), settled; not proven: proven for ")
        assert converted(kafka, group) == 1
        eventually(
            lambda: converted(kafka, group), lambda found: found == 3, what="all are moved", timeout_s=90
        )
        found = eventually(
            lambda: proof(proxy, group),
            lambda one: one["verdict"] == "proven" and one["looked_at"] - one["clean_since"] > PROOF_S,
            what="the whole move is proven",
        )
        assert (found["state"], found["scope"], found["complete"]) == ("live", "all processes", True)
        eventually(
            lambda: (proof(proxy, group)["certificate"], by_verify(proxy, group)),
            lambda both: all(both[0][key] == both[1][key] for key in SAME),
            what="the certificate is that of `epochgate verify` on the files",
        )
        certificate = proof(proxy, group)["certificate"]
        assert (certificate["verdict"], certificate["owners"]["violations"]) == ("proven", [])
        assert {"classic", "translated"} <= certificate["pauses"].keys()
        assert not certificate["commits"]["recorded"], "nothing was there to be read and committed"


@pytest.mark.scenario("a proxy of a fleet is killed: its time is not proven, and the step waits")
def test_a_killed_replica_leaves_a_time_that_is_not_proven_and_the_step_waits(
    kafka, consumers, folder: Path, group
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    options = {
        "policy": POLICY.format(proof_s=3600, more=""),
        "sole_process": False,
        "fleet": {
            "kafka": {"bootstrap.servers": kafka.bootstrap},
            "topic": f"members-{group}",
            "partitions": 2,
            "replication": 1,
        },
        "journal": {"topic": f"journal-{group}"},
        "verify": {"live": True},
    }
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(running_proxy(kafka.bootstrap, folder / f"proxy-{number}", **options))
            for number in range(2)
        ]
        for proxy in proxies:
            eventually(
                lambda proxy=proxy: metric(proxy, 'epochgate_fleet_replicas{state="active"}'),
                lambda heard: heard == len(proxies),
                what="each replica has heard the other",
            )
        behind = eventually(
            lambda: [metric(proxy, "epochgate_proof_behind_seconds") for proxy in proxies],
            lambda found: sorted(value > 0 for value in found) == [False, True],
            what="one of the two verifies",
        )
        verifier, other = proxies if behind[0] else reversed(proxies)
        for _ in range(2):
            consumers.start(CONFLUENT, verifier.bootstrap, group, topic, "range")
        eventually(lambda: converted(kafka, group), lambda found: found == 1, what="the first step is taken")
        consumers.start(CONFLUENT, other.bootstrap, group, topic, "range")
        eventually(
            lambda: [proof(proxy, group).get("state") for proxy in (verifier, other)],
            lambda found: found == ["live", "elsewhere"],
            what="one of the two has read the topic, and the other says who it is",
            timeout_s=90,
        )
        eventually(
            lambda: proof(verifier, group),
            lambda one: one["verdict"] == "proven" and sum(one["certificate"]["members"].values()) > 2,
            what="the members of both replicas are proven",
            timeout_s=90,
        )
        eventually(
            lambda: [move(proxy, group) for proxy in proxies],
            lambda found: all("not proven: proven for" in text for text in found),
            what="both replicas read what is proven in the member log",
        )
        other.kill()
        cut = eventually(
            lambda: proof(verifier, group),
            lambda one: any("has ended, and did not say so" in why for why in one["why"]),
            what="the time of the kill is not proven",
        )
        again = eventually(
            lambda: proof(verifier, group),
            lambda one: one["verdict"] == "proven" and one["clean_since"] > cut["looked_at"] - 1,
            what="the time after it is",
            timeout_s=120,
        )
        assert again["violated_at"] is None
        assert "step 1 of 2" in move(verifier, group)
        (verifier.folder / "policy.yaml").write_text(POLICY.format(proof_s=3600, more=OVERRIDE))
        eventually(
            lambda: move(verifier, group),
            lambda text: text.startswith("step 2 of 2 (100%), begun unproven (INC-7, Anna)"),
            what="somebody lets it go on, which is recorded",
        )


def test_partitions_are_read_side_by_side_and_each_record_once(kafka, group):
    """Half a batch holds more seconds than a partition may be ahead, so each has to wait for the other many times."""
    topic, seconds = f"journal-{group}", 3_000
    kafka.admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50})
    begin_ms = 1_790_000_000_000
    for partition in range(2):
        for second in range(seconds):
            value = f"{partition} {second}".encode()
            producer.produce(topic, value, partition=partition, timestamp=begin_ms + second * 1000)
    assert producer.flush(60) == 0

    reader = JournalReader(topic, {"bootstrap.servers": kafka.bootstrap})
    lines: list[str] = []
    newest, apart, until_ms = [0, 0], 0, 0
    try:
        while True:
            found = reader.read()
            for line in found.lines:
                assert line is not None
                lines.append(line.decode())
                partition, second = map(int, lines[-1].split())
                newest[partition] = second
            if found.is_at_end:
                break
            assert found.until_ms >= until_ms, "what is read is never less than before"
            until_ms = found.until_ms
            assert until_ms <= begin_ms + min(newest) * 1000 or seconds - 1 in newest
            if seconds - 1 not in newest:
                apart = max(apart, abs(newest[0] - newest[1]))
    finally:
        reader.close()
    assert sorted(lines) == sorted(
        f"{partition} {second}" for partition in range(2) for second in range(seconds)
    )
    assert apart <= AHEAD_MS // 1000 + AT_ONCE
