"""HAProxy, for those tests and measurements that put it beside Epochgate or in front of it."""

import shutil


def program() -> str | None:
    """Where it is, if it is installed."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
