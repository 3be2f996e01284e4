"""`mode: host` is refused unless the configuration calls it an experiment, and where two processes could host."""

import pytest
from typer.testing import CliRunner

from protocol_codecs import ApiKey, ErrorCode
from proxy.cli import command_line
from proxy.config.hosting import check_hosting
from proxy.config.loader import ConfigError, load_config, parse_policy
from translation.policy.policy import Mode, Rule

CONFIG = """
upstream: {bootstrap: ["kafka-1:9092"]}
listeners: [{port: 19092, advertised_host: proxy.example, nodes: {"0-9": 19100}}]
"""
HOSTED = "rules: [{group: billing, mode: host}]"
"""A policy that hosts a group."""
FLEET = 'fleet: {topic: epochgate-members, kafka: {"bootstrap.servers": "kafka-1:9092"}}'


@pytest.fixture
def check(tmp_path):
    """Checks a policy with more lines of configuration."""

    def _check(config: str, policy: str = HOSTED) -> None:
        file = tmp_path / "epochgate.yaml"
        file.write_text(CONFIG + config)
        check_hosting(load_config(file), parse_policy("policy.yaml", policy))

    return _check


def test_an_experimental_configuration_of_one_process_may_host(check):
    check("experimental: true")


def test_without_experimental_only_policies_that_host_nothing_are_taken(check):
    check("", "rules: [{group: billing, mode: translate}]")
    with pytest.raises(
        ConfigError, match=r"policy: rule 1: `mode: host` is an experiment.*`experimental: true`"
    ):
        check("")
    with pytest.raises(ConfigError, match="policy: default: `mode: host` is an experiment"):
        check("", "default: host")


def test_replicas_with_a_member_log_may_host(check):
    """The log names the host of each group."""
    check(f"experimental: true\nworkers: 2\n{FLEET}")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("workers: 2", "`workers`"),
        ("sole_process: false", "`sole_process` is false"),
    ],
)
def test_several_processes_may_not_host(check, config, why):
    with pytest.raises(ConfigError, match=f"needs one process.*{why}"):
        check(f"experimental: true\n{config}")


def test_run_and_config_check_refuse_it(tmp_path):
    (tmp_path / "epochgate.yaml").write_text(CONFIG + "policy: {file: policy.yaml}\n")
    (tmp_path / "policy.yaml").write_text(HOSTED)
    result = CliRunner().invoke(command_line(), ["config", "check", str(tmp_path / "epochgate.yaml")])
    assert result.exit_code != 0
    assert "`mode: host` is an experiment" in result.output


def test_members_of_the_new_protocol_may_not_join_a_hosted_group():
    rule = Rule(mode=Mode.HOST, group="billing")
    assert rule.refusal(ApiKey.JOIN_GROUP) is None
    assert rule.refusal(ApiKey.CONSUMER_GROUP_HEARTBEAT) is ErrorCode.GROUP_ID_NOT_FOUND
    assert rule.refusal(ApiKey.SHARE_GROUP_HEARTBEAT) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_is_never_hosted():
    with pytest.raises(ConfigError, match="never hosted"):
        parse_policy("policy.yaml", "rules: [{group: billing, mode: host, type: share}]")
