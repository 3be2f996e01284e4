"""Provides kubeconform's schemas: Kubernetes' own from PyPI, the operators' from their CRDs."""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

import kubernetes_validate

from tools.chart import crds
from tools.chart.binaries import ROOT

_FOLDER = ROOT / "build" / "chart" / "schemas"
_REFERENCE = re.compile(r'"(?:/api/_definitions\.json)?#/\$defs/([^"]+)"')

OLDEST = "1.27.0"
"""The oldest version of Kubernetes that Chart.yaml supports."""

NEWEST = "1.37.0"

_KINDS = (
    "configmap-v1",
    "cronjob-batch-v1",
    "deployment-apps-v1",
    "horizontalpodautoscaler-autoscaling-v2",
    "ingress-networking-v1",
    "job-batch-v1",
    "networkpolicy-networking-v1",
    "persistentvolumeclaim-v1",
    "pod-v1",
    "poddisruptionbudget-policy-v1",
    "role-rbac-v1",
    "rolebinding-rbac-v1",
    "service-v1",
    "serviceaccount-v1",
)


def location(version: str) -> str:
    """Return the value of kubeconform's ``-schema-location`` for one version of Kubernetes."""
    kubernetes(version)
    custom_resources()
    return f"{_FOLDER / version}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


@functools.cache
def kubernetes(version: str) -> None:
    """Write the schemas of the kinds that the chart makes, each with the definitions that it refers to."""
    package = (
        Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    )
    definitions = json.loads((package / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    for kind in _KINDS:
        text = (package / f"{kind}.json").read_text(encoding="utf-8")
        needed: dict[str, Any] = {}
        waiting = set(_REFERENCE.findall(text))
        while waiting:
            name = waiting.pop()
            needed[name] = definitions[name]
            waiting |= set(_REFERENCE.findall(json.dumps(definitions[name]))) - needed.keys()
        whole = json.dumps({**json.loads(text), "definitions": needed})
        _write(_FOLDER / version / f"{kind}.json", _REFERENCE.sub(r'"#/definitions/\1"', whole))


@functools.cache
def custom_resources() -> None:
    """Write the schemas of the custom resources that the chart may make, from the operators' CRDs."""
    for crd in (definition for source in crds.SOURCES for definition in source.definitions()):
        for served in crd["spec"]["versions"]:
            kind, group = crd["spec"]["names"]["kind"].lower(), crd["spec"]["group"].split(".")[0]
            schema = strict(served["schema"]["openAPIV3Schema"])
            for kubernetes_version in (OLDEST, NEWEST):
                name = f"{kind}-{group}-{served['name']}.json"
                _write(_FOLDER / kubernetes_version / name, json.dumps(schema))


def _write(file: Path, text: str) -> None:
    """Write a file atomically: several test processes may write and read at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(file)


def strict(schema: Any) -> Any:
    """Return a CRD's schema as JSON schema: unknown fields, which the API server would drop, are forbidden in it."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if found.pop("x-kubernetes-int-or-string", False) is True:
        found["oneOf"] = [{"type": "string"}, {"type": "integer"}]
        found.pop("anyOf", None)
    if (
        isinstance(schema.get("properties"), dict)
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        found["additionalProperties"] = False
    return found
