"""What the running proxy has its preflight's process (:mod:`proxy.preflight.child`) do."""

import msgspec

from proxy.config.schema import Config
from translation.policy.policy import Policy


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to do. ``admin`` is the URL of the running proxy's admin port."""

    config: Config
    policy: Policy
    admin: str
