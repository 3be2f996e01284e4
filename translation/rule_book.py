"""Which rule of the policy is that of a group, asked at every call."""

from translation.policy import Policy, Rule

_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 255
"""A client makes up as many group ids as it likes, of up to 32 KiB."""


class RuleBook:
    """The policy of now, and the groups that were looked up in it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._found: dict[str, Rule] = {}

    def of(self, group_id: str) -> Rule:
        """What the policy says now of a group."""
        rule = self._found.get(group_id)
        if rule is None:
            rule = self._policy.rule_for(group_id)
            if len(group_id) <= _LONGEST_REMEMBERED:
                if len(self._found) == _REMEMBERED:
                    self._found.clear()
                self._found[group_id] = rule
        return rule

    def use(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        self._policy = policy
        self._found.clear()
