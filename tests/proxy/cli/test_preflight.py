"""`epochgate preflight` as a command: options that are refused, and what it says when nobody answers."""

import io
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from proxy.admin.preflight_report import Report
from proxy.cli import command_line
from proxy.cli.preflight import show
from proxy.config.fleet import Fleet
from proxy.config.reporting import PreflightSection
from proxy.config.schema import Admin, Listener
from proxy.preflight import ask
from proxy.preflight.ask import account_of, properties_of, taken_ports, tls_of, upstream_of, with_files
from proxy.preflight.ask_proxies import Seen
from proxy.preflight.checks.table import CHECKS
from proxy.preflight.judge import check_preflight, judge
from proxy.runtime.exit_codes import ExitCode
from tests.proxy.preflight.facts import UNKNOWN, classic, config, facts, snapshot

ROOT = Path(__file__).parents[3]


def run(*arguments):
    return CliRunner().invoke(command_line(), ["preflight", *map(str, arguments)])


@pytest.fixture
def closed():
    """A port of loopback where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_brokers_that_do_not_answer_are_unknown_and_nothing_passes(closed):
    done = run("--from", closed, "-o", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == ExitCode.UNDECIDED
    assert report["status"] == "unknown"
    assert {one["check"] for one in report["findings"]} == {"brokers", "groups", "acls"}
    assert {one["status"] for one in report["checks"]} == {"unknown", "not asked"}
    assert closed in report["findings"][0]["what"]


def test_a_proxy_that_does_not_answer_is_unknown_too(closed):
    done = run("--from", closed, "--proxy", closed, "-o", "json")
    assert "proxy" in {one["check"] for one in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a broker: --config or --from"),
        (("--from", "nobody"), "expected host:port"),
        (("--from", "127.0.0.1:1", "--kafka-version", "4"), "such as 4.4.0"),
        (("--from", "127.0.0.1:1", "--accept", "nothing"), "there is no check 'nothing'"),
        (("--from", "127.0.0.1:1", "--proxy", "ftp://x"), "expected host:port or a URL"),
        (("--from", "127.0.0.1:1", "--kafka-conf", "no.such.property=1"), "no.such.property"),
        (("--from", "127.0.0.1:1", "--kafka-conf-file", "sasl.password=/nowhere"), "/nowhere can't be read"),
        (("--config", "/nowhere"), "/nowhere"),
        (("--from", "127.0.0.1:1", "--policy", "/nowhere"), "/nowhere"),
        (("--from", "::1:9092"), "expected host:port, got '::1:9092'"),
        (("--from", "127.0.0.1:70000"), "expected host:port"),
        (
            ("--from", "127.0.0.1:1", "--replicas", "ftp://x:1"),
            "expected host:port or a URL, got 'ftp://x:1'",
        ),
        (("--from", "127.0.0.1:1", "--fail-on", "always"), "--fail-on"),
    ],
)
def test_bad_input_is_refused_before_anybody_is_asked(arguments, said):
    done = run(*arguments)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.output


@pytest.mark.parametrize(
    ("output", "redirection", "code", "said"),
    [
        ("json", ">&-", ExitCode.UNDECIDED, ""),  # whoever closed it goes by the exit code
        (
            "text",
            ">/dev/full",
            ExitCode.FAILED,
            "error: the report can't be written: No space left on device\n",
        ),
    ],
)
def test_a_report_that_can_not_be_written_makes_no_traceback(closed, output, redirection, code, said):
    command = f"{sys.executable} -m proxy preflight --from {closed} --output {output} {redirection}"
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("unknown", ExitCode.UNDECIDED), ("found", ExitCode.SUCCESS), ("never", ExitCode.SUCCESS)],
)
def test_what_is_unknown_fails_the_command_unless_it_is_told_otherwise(closed, fail_on, code):
    done = run("--from", closed, "-o", "json", "--fail-on", fail_on)
    assert done.exit_code == code
    assert json.loads(done.stdout)["status"] == "unknown"


def test_the_configuration_says_what_is_accepted_and_which_release_it_is(closed, tmp_path):
    known = {
        "upstream": {"bootstrap": [closed]},
        "listeners": [{"bind": "127.0.0.1", "port": 0, "advertised_host": "p", "nodes": {"0": 0}}],
        "admin": {"port": 0},
        "preflight": {"accept": ["brokers", "groups", "acls", "proxy"], "kafka_version": "4.1.0"},
    }
    (tmp_path / "epochgate.yaml").write_text(json.dumps(known))
    done = run("--config", tmp_path / "epochgate.yaml", "-o", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == ExitCode.PROBLEM_FOUND
    assert all(one["accepted"] for one in report["findings"] if one["unknown"])
    assert "bug_describe_pending" in {one["check"] for one in report["findings"]}
    known["preflight"] = {"accept": ["nothing"]}
    (tmp_path / "epochgate.yaml").write_text(json.dumps(known))
    refused = run("--config", tmp_path / "epochgate.yaml")
    assert refused.exit_code == ExitCode.USAGE
    assert "`preflight.accept`: there is no check 'nothing'" in refused.output


def test_the_configuration_on_the_page_is_good():
    page = (ROOT / "docs" / "how-to" / "preflight.md").read_text()
    block = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    section = msgspec.convert(yaml.safe_load(block)["preflight"], PreflightSection)
    check_preflight(config(preflight=section))
    assert section.accept == ("racks",)


def shown(report: Report) -> str:
    written = io.StringIO()
    show(report, Console(width=200, file=written))
    return written.getvalue()


def test_people_are_told_what_was_found_in_which_groups_and_what_to_do():
    groups = tuple(classic(f"g\x1b{number:02}", assignor="stream") for number in range(10))
    text = shown(judge(facts(groups=groups)))
    assert "translatable" in text
    assert "groups (10): g\\x1b00" in text
    assert "and 2 more" in text
    assert "do: leave it classic" in text
    assert "10 groups, 10 of them to move" in text


def test_a_clean_cluster_is_one_line():
    count = len(CHECKS)
    said = f"Nothing was found. {count} of {count} checks passed; 2 brokers, 1 group, 1 of them to move\n"
    assert shown(judge(facts())) == said


def test_the_ports_of_a_proxy_that_runs_are_its_own(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as admin:
        port, admin_port = taken.getsockname()[1], admin.getsockname()[1]
        own = config(
            listeners=(Listener(bind="127.0.0.1", port=0, advertised_host="p", nodes={"0": port}),),
            admin=Admin(port=admin_port),
        )
        asked = []
        monkeypatch.setattr(ask, "ask_proxies", lambda urls, *_: asked.append(urls) or Seen(snapshot()))
        assert taken_ports(own) == {}
        assert asked == [(f"http://127.0.0.1:{admin_port}",)]
        monkeypatch.setattr(ask, "ask_proxies", lambda *_: Seen(UNKNOWN))
        assert list(taken_ports(own)) == [f"127.0.0.1:{admin_port}", f"127.0.0.1:{port}"]


def test_people_are_told_what_was_not_checked():
    text = shown(judge(facts(acls=UNKNOWN)))
    assert "not checked: acl_hosts, acl_topics, acl_member_log, identity_rights, identity_principals" in text
    assert "not everything could be checked" in text


def test_a_port_that_is_taken_is_named_and_none_is_held():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        checked = config(
            listeners=(Listener(bind="127.0.0.1", port=port, advertised_host="p", nodes={"0": 0}),),
            admin=Admin(port=0),
        )
        assert list(taken_ports(checked)) == [f"127.0.0.1:{port}"]
    assert taken_ports(checked) == {}


def test_the_account_that_is_given_comes_before_the_fleets():
    fleet = Fleet(kafka={"bootstrap.servers": "log:9092", "sasl.username": "fleet"})
    known = config(fleet=fleet)
    assert account_of(known, {}, None) == {"bootstrap.servers": "log:9092", "sasl.username": "fleet"}
    given = account_of(known, {"sasl.username": "me"}, None)
    assert given == {"bootstrap.servers": "kafka-1:9092", "sasl.username": "me"}
    assert account_of(config(), {}, "kafka-1:9092") is None


def test_tls_is_the_same_for_both_ways_to_ask():
    given = {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}
    tls = upstream_of(None, "kafka-1:9093, kafka-2:9093", given).tls
    assert tls is not None
    assert tls.ca == "/ca.pem"
    assert properties_of(upstream_of(None, "kafka-1:9093", given).addresses, tls) == {
        "bootstrap.servers": "kafka-1:9093",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
    }
    assert tls_of({"security.protocol": "SASL_PLAINTEXT"}) is None


def test_a_property_is_given_once(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("word\r\n")
    assert with_files({}, {"sasl.password": str(secret)}) == {"sasl.password": "word"}
    with pytest.raises(ValueError, match="given twice"):
        with_files({"sasl.password": "x"}, {"sasl.password": str(secret)})
