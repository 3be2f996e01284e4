"""Writes the files of a policy as Kubernetes objects: a set of ConfigMaps, or values of the Helm chart. Pure.

A ConfigMap has 1 MiB at most. ``kubectl apply`` keeps a copy of what it applies in an annotation of 256 KiB at most, so
larger ones need ``--server-side``, which keeps none.
"""

from collections.abc import Iterator, Mapping

from protocol_codecs.policy_manifest import MANIFEST, generated

LABEL = "epochgate.io/policy-set"
"""The label by which the ConfigMaps of a set are found; its value is the name of the set."""

MOST_BYTES = 960 * 1024
"""Bytes of the files of one ConfigMap."""


def config_maps(files: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """The manifests of a set of ConfigMaps, as files by name: ``NAME-0``, ``NAME-1``, ..., and ``NAME-manifest``."""
    made = {f"{name}-{number}": part for number, part in enumerate(_packed(files))}
    made[f"{name}-manifest"] = {MANIFEST: files[MANIFEST]}
    return {f"{one}.yaml": generated(_config_map(one, name, part).encode()) for one, part in made.items()}


def helm_values(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The values of the chart, as one file."""
    return {"values.yaml": generated(f"policy:\n  set:\n    files:\n{_literals(files, 6)}".encode())}


def _packed(files: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    part: dict[str, bytes] = {}
    size = 0
    for name, content in sorted(files.items()):
        if name == MANIFEST:
            continue
        if part and size + len(content) > MOST_BYTES:
            yield part
            part, size = {}, 0
        part[name] = content
        size += len(content)
    if part:
        yield part


def _config_map(name: str, of: str, files: Mapping[str, bytes]) -> str:
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
        f'  name: {name}\n  labels: {{{LABEL}: "{of}"}}\ndata:\n{_literals(files, 2)}'
    )


def _literals(files: Mapping[str, bytes], indent: int) -> str:
    """Each file as a block of text below its name. Generated text has printable characters only, and no long runs."""
    lines = []
    for name, content in sorted(files.items()):
        lines.append(f'{" " * indent}"{name}": |\n')
        lines += (f"{' ' * (indent + 2)}{line}\n" for line in content.decode().removesuffix("\n").split("\n"))
    return "".join(lines)
