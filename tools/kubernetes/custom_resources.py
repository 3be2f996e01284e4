"""Kinds that a cluster can be taught: defined, and forgotten again with all resources of them."""

from collections.abc import Collection, Sequence
from pathlib import Path

from tools.chart import crds
from tools.kubernetes.kubectl import kubectl


def of_the_chart() -> list[Path]:
    """Return the files that define the kinds that the chart may make.

    :raises NoGoError: they can't be fetched.
    """
    return [file for source in crds.SOURCES for file in source.files]


def define(files: Sequence[Path]) -> None:
    """Define the kinds of these files or folders, and wait until the API server serves them."""
    # By the server, for the client would keep a copy in an annotation, for which some are too large.
    kubectl("apply", "--server-side", *_named(files))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *_named(files))


def known() -> set[str]:
    """Return the names of the kinds that are defined."""
    return set(kubectl("get", "customresourcedefinitions", "--output=name").split())


def forget(names: Collection[str]) -> None:
    """Remove kinds by name."""
    if names:
        kubectl("delete", *names)


def _named(files: Sequence[Path]) -> list[str]:
    return [f"--filename={file}" for file in files]
