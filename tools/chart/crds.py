"""The definitions of the custom resources that the chart may make, from their projects' Go modules."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.chart.binaries import module_folder


@dataclass(frozen=True)
class Source:
    """A Go module at one version, and where in it the definitions are."""

    module: str
    version: str
    checksum: str
    paths: tuple[str, ...]
    """The files with those that the chart makes resources of."""

    @functools.cached_property
    def folder(self) -> Path:
        """Return its sources.

        :raises NoGoError: they can't be fetched, or are not what the checksum says.
        """
        return module_folder(self.module, self.version, self.checksum)

    @property
    def files(self) -> list[Path]:
        """Return these files."""
        return [self.folder / path for path in self.paths]

    def definitions(self) -> list[dict[str, Any]]:
        """Return what is in them, CustomResourceDefinitions."""
        texts = [file.read_text(encoding="utf-8") for file in self.files]
        return [definition for text in texts for definition in yaml.safe_load_all(text)]


PROMETHEUS_OPERATOR = Source(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    (
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
)
CERT_MANAGER = Source(
    "github.com/cert-manager/cert-manager",
    "v1.21.2",
    "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
    ("deploy/crds/cert-manager.io_certificates.yaml",),
)
GATEWAY_API = Source(
    "sigs.k8s.io/gateway-api",
    "v1.5.1",
    "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0=",
    (
        "config/crd/experimental/gateway.networking.k8s.io_tlsroutes.yaml",
        "config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml",
        "config/crd/experimental/gateway.networking.k8s.io_backendtlspolicies.yaml",
    ),
)
VERTICAL_POD_AUTOSCALER = Source(
    "k8s.io/autoscaler/vertical-pod-autoscaler",
    "v1.7.3",
    "h1:MGd2lqWWrnT0nUurQ2g5t6lDf6hG7yJai5ZGadqEoRU=",
    ("deploy/vpa-v1-crd-gen.yaml",),
)
SOURCES = (PROMETHEUS_OPERATOR, CERT_MANAGER, GATEWAY_API, VERTICAL_POD_AUTOSCALER)
"""Those of what the chart makes."""
SPARK_OPERATOR = Source(
    "github.com/kubeflow/spark-operator/v2",
    "v2.3.0",
    "h1:cYN/331gwkdZ0S/ai72JQoUv7UK52O2OQOWFpl8XhPc=",
    ("config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",),
)
"""Of an example in the documentation."""
