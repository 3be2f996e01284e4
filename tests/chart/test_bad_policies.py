"""A policy that pods would refuse is refused before anything is installed: as values, and as files of a set."""

import json
from typing import Any

import pytest
import yaml

from protocol_codecs.policy_manifest import MANIFEST, manifest_of
from proxy.config.document import ConfigError
from proxy.config.loader import parse_policy
from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

BROKERS = ("--set-json", 'upstream.bootstrap=["kafka:9092"]')

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing that it is for": ({"mode": "observe"}, "exactly one of group, groups and pattern"),
    "two that it is for": ({"mode": "observe", "group": "a", "pattern": "b"}, "exactly one of group, groups"),
    "a pattern that is none": ({"mode": "observe", "pattern": "web-("}, "missing closing )"),
    "a pattern of two halves": ({"mode": "observe", "pattern": "a)|(b"}, "unexpected )"),
    "a pattern that RE2 does not have": (
        {"mode": "observe", "pattern": "a(?=b)"},
        "invalid or unsupported Perl syntax",
    ),
    "a share group that is translated": (
        {"mode": "translate", "group": "a", "type": "share"},
        "a share group is never translated",
    ),
    "steps of nothing": ({"mode": "observe", "group": "a", "steps": [1]}, "mode has to be translate"),
    "no step": ({"mode": "translate", "group": "a", "steps": []}, "steps"),
    "a step of nobody": ({"mode": "translate", "group": "a", "steps": [0]}, "is no number of members"),
    "a step of half a member": (
        {"mode": "translate", "group": "a", "steps": [1.5]},
        "is no number of members",
    ),
    "a step that is neither": ({"mode": "translate", "group": "a", "steps": ["ten"]}, "neither a number"),
    "a share of more than all": ({"mode": "translate", "group": "a", "steps": ["101%"]}, "at most 100%"),
    "a share of nothing": ({"mode": "translate", "group": "a", "steps": ["0.00%"]}, "more than 0%"),
    "steps that do not rise": ({"mode": "translate", "group": "a", "steps": [5, 5]}, "steps have to rise"),
    "a number after a share": (
        {"mode": "translate", "group": "a", "steps": ["10%", 20]},
        "steps have to rise",
    ),
    "a wave of a pattern": (
        {"mode": "translate", "pattern": "a.*", "steps": ["100%"], "wave": 1},
        "wave needs steps, and group or groups",
    ),
    "a wave without steps": ({"mode": "translate", "group": "a", "wave": 1}, "wave needs steps"),
    "gates without a step before all": (
        {"mode": "translate", "group": "a", "steps": ["100%"], "abort_if": {}},
        "abort_if needs steps, the first of less than 100%",
    ),
    "gates without steps": ({"mode": "translate", "group": "a", "abort_if": {}}, "abort_if needs steps"),
    "a proof without steps": ({"mode": "translate", "group": "a", "proof_s": 60}, "proof_s is about steps"),
    "an override without a proof": (
        {"mode": "translate", "group": "a", "steps": [1], "unproven_override": "x"},
        "unproven_override is about proof_s",
    ),
    "a pause without steps": ({"mode": "translate", "group": "a", "pause": True}, "pause is about steps"),
    "an approval of the whole": (
        {"mode": "translate", "group": "a", "steps": ["100%"], "approval": "required"},
        "approval is about steps",
    ),
    "an approval that no step needs": (
        {"mode": "translate", "group": "a", "steps": [1], "approve": 1},
        "approve needs approval: required",
    ),
    "a window that never opens": (
        {"mode": "translate", "group": "a", "steps": [1], "windows": [{"from": "16:00", "to": "09:00"}]},
        "to has to be later than from",
    ),
    "days that are none": (
        {"mode": "translate", "group": "a", "steps": [1], "windows": [{"days": "mon-frid"}]},
        "days of a window",
    ),
}

BAD_FILES = {
    "no YAML": ("rules: [", "yaml"),
    "an unknown key": ("rule: []\n", 'unknown key "rule"'),
    "an unknown key of a rule": ("rules: [{group: a, mode: observe, step: 1}]\n", 'unknown key "step"'),
    "an unknown mode": ("rules: [{group: a, mode: on}]\n", "none of observe, translate, reject"),
    "an unknown default": ("default: on\n", "is no mode"),
    "rules that are no list": ("rules: {group: a}\n", "rules: not a list"),
    "a rule that is a word": ("rules: [payments]\n", "not a rule such as"),
}

GOOD: list[dict[str, Any]] = [
    {"mode": "observe", "group": "a", "owner": "team", "mend": None},
    {"mode": "reject", "pattern": "web-[0-9]+", "type": "share"},
    {
        "mode": "translate",
        "groups": ["a", "b"],
        "steps": [1, 5, "10%", "12.5%", "100%"],
        "wave": 2,
        "hold_s": 0,
    },
    {
        "mode": "translate",
        "group": "a",
        "steps": [1, "100%"],
        "windows": [{"days": "Mon-Thu, sat", "from": "09:00", "to": "24:00"}, {}],
        "approval": "required",
        "approve": 1,
        "pause": True,
        "abort_if": {},
        "proof_s": 60,
        "unproven_override": "INC-1, Anna",
    },
]


def as_values(rules: list[dict[str, Any]]) -> str:
    return render.template(*BROKERS, "--set-json", f"policy.rules={json.dumps(rules)}")


def as_files(folder, **files: str) -> str:
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump({"policy": {"set": {"files": files}}}))
    return render.template(*BROKERS, "--values", str(values))


def with_manifest(**files: str) -> dict[str, str]:
    return {**files, MANIFEST: manifest_of({name: text.encode() for name, text in files.items()}).decode()}


@pytest.mark.parametrize("case", BAD)
def test_a_rule_that_pods_refuse_is_refused(tmp_path, case):
    rule, said = BAD[case]
    text = yaml.safe_dump({"rules": [rule]})
    with pytest.raises(ConfigError):
        parse_policy("policy", text)
    with pytest.raises(render.HelmError) as error:
        as_values([rule])
    assert said in str(error.value) or "/policy/rules/0" in str(error.value)  # the schema's words
    with pytest.raises(render.HelmError) as error:
        as_files(tmp_path, **with_manifest(**{"wave-1.yaml": text}))
    assert said in str(error.value)


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_pods_refuse_is_refused(tmp_path, case):
    text, said = BAD_FILES[case]
    with pytest.raises(ConfigError):
        parse_policy("policy", text)
    with pytest.raises(render.HelmError, match=r"policy\.set\.files: wave-1\.yaml") as error:
        as_files(tmp_path, **with_manifest(**{"wave-1.yaml": text}))
    assert said in str(error.value)


def test_what_pods_take_is_taken(tmp_path):
    text = yaml.safe_dump(
        {"default": "translate", "rules": GOOD, "waves": {"share": "90%"}, "assignors_allowed": ["a"]}
    )
    assert len(parse_policy("policy", text).rules) == len(GOOD)
    assert as_values(GOOD)
    assert as_files(tmp_path, **with_manifest(**{"wave-1.yaml": text, "wave-2.yaml": "rules: []\n"}))


def test_files_are_those_of_their_manifest(tmp_path):
    files = with_manifest(**{"wave-1.yaml": "default: observe\n"})
    for changed, said in (
        ({"wave-1.yaml": "default: translate\n"}, "wave-1.yaml is not as manifest.json has it"),
        ({"wave-1.yaml": None}, "manifest.json names wave-1.yaml, which is missing"),
        ({MANIFEST: None}, "there is no manifest.json"),
        ({MANIFEST: "[]"}, "manifest.json is no manifest"),
    ):
        wrong = {name: text for name, text in (files | changed).items() if text is not None}
        with pytest.raises(render.HelmError, match=r"policy\.set\.files") as error:
            as_files(tmp_path, **wrong)
        assert said in str(error.value)
