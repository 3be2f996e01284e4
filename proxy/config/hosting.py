"""Whether a configuration lets groups be hosted (`mode: host`): an experiment, by one process for each group."""

from proxy.config.loader import ConfigError
from proxy.config.schema import Config
from translation.policy.policy import Mode, Policy


def check_hosting(config: Config, policy: Policy) -> None:
    """Refuse a policy that hosts groups, unless this configuration allows it.

    :raises ConfigError: it is not experimental, or several processes may serve one group.
    """
    hosting = _hosting_rule(policy)
    if hosting is None:
        return
    if not config.experimental:
        raise ConfigError(
            f"{hosting}: `mode: host` is an experiment, which needs `experimental: true` in the configuration "
            "(docs/explanation/hosted-groups.md)"
        )
    if config.fleet is not None:
        return  # its log names the host of each group
    if config.workers > 1:
        several = "`workers` is more than 1"
    elif not config.sole_process:
        several = "`sole_process` is false"
    else:
        return
    raise ConfigError(
        f"{hosting}: `mode: host` needs one process that serves all clients of the group, or `fleet`, and {several}: "
        "two processes would give the same partitions to two consumers"
    )


def _hosting_rule(policy: Policy) -> str | None:
    """What in the policy hosts groups, for people; None if nothing does."""
    if policy.default is Mode.HOST:
        return "policy: default"
    number = next((n for n, rule in enumerate(policy.rules, start=1) if rule.mode is Mode.HOST), None)
    return None if number is None else f"policy: rule {number}"
