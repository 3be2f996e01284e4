"""All checks, in the order in which a report has them."""

from proxy.preflight.checks import (
    acls,
    configuration,
    groups,
    identity,
    known_bugs,
    running_proxy,
    settings,
    versions,
)
from proxy.preflight.checks.check import Check

CHECKS: tuple[Check, ...] = (
    *versions.CHECKS,
    *configuration.CHECKS,
    *settings.CHECKS,
    *groups.CHECKS,
    *acls.CHECKS,
    *identity.CHECKS,
    *running_proxy.CHECKS,
    *known_bugs.CHECKS,
)
