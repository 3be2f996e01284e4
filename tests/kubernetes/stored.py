"""What the API server made of the objects that helm sent."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.chart import render
from tools.kubernetes.kubectl import kubectl


def differences(manifests: str, namespace: str) -> list[str]:
    """Fields that are not stored as they were sent; what the server adds to them counts for nothing."""
    sent = render.documents(manifests)
    listed = kubectl("get", f"--namespace={namespace}", "--output=json", "--filename=-", feed=manifests)
    found = json.loads(listed)
    stored = found["items"] if found["kind"] == "List" else [found]
    names = [(one["kind"], one["metadata"]["name"]) for one in stored]
    assert names == [(one["kind"], one["metadata"]["name"]) for one in sent]
    return [
        f"{kind}/{name}{said}"
        for (kind, name), mine, theirs in zip(names, sent, stored, strict=True)
        for said in _differences(mine, theirs)
    ]


def _quantity(value: Any) -> Any:
    """A quantity of thousands as a number, for the server writes 2000 as 2k."""
    found = re.fullmatch(r"(\d+)(k?)", value) if isinstance(value, str) else None
    return int(found[1]) * (1000 if found[2] else 1) if found else value


def _differences(sent: Any, stored: Any, at: str = "") -> Iterator[str]:
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if key in stored:
                yield from _differences(value, stored[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}: {value!r} is dropped"
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for number, (mine, theirs) in enumerate(zip(sent, stored, strict=True)):
            yield from _differences(mine, theirs, f"{at}[{number}]")
    elif sent != stored and _quantity(sent) != _quantity(stored):
        yield f"{at}: {sent!r} became {stored!r}"
