"""The page on the policy file prints what ``epochgate policy check`` prints, and its examples are good policies."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from protocol_codecs.classic_clients import Refusal
from proxy.cli import command_line
from proxy.config.loader import load_policy
from translation.policy.assignors import SERVER_ASSIGNORS
from translation.policy.policy import Mode

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")

CHECKED = """\
default: observe
rules:
  - {group: payments, mode: translate, assignor: range}
  - {pattern: "web-.*", mode: translate}
  - {group: web-shop, mode: observe}
  - {pattern: audit, mode: observe}
"""


def test_the_output_of_policy_check_is_what_it_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(CHECKED, encoding="utf-8")
    printed = CliRunner().invoke(command_line(), ["policy", "check", "policy.yaml"])
    assert printed.exit_code == 0
    assert f"$ epochgate policy check policy.yaml\n{printed.output}```" in PAGE


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_each_example_is_a_good_policy(tmp_path, example):
    file = tmp_path / "policy.yaml"
    file.write_text(example, encoding="utf-8")
    policy = load_policy(file)
    assert len(policy.rules) == len(yaml.safe_load(example)["rules"])
    assert list(policy.assignors_allowed) == yaml.safe_load(example).get("assignors_allowed", [])


def test_each_kind_of_client_that_is_not_translated_is_on_the_page():
    kinds = set(Refusal) - {Refusal.NO_PROTOCOL}
    assert [kind for kind in kinds if f"| `{kind}` |" not in PAGE] == []


def test_each_mode_and_each_assignor_is_on_the_page():
    assert [mode for mode in Mode if f"| `{mode}` |" not in PAGE] == []
    assert [assignor for assignor in SERVER_ASSIGNORS if f"`{assignor}`" not in PAGE] == []
