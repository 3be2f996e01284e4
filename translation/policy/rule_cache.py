"""Which rule of the policy is that of a group, asked at every call."""

from translation.policy.policy import Mode, Policy, Rule

_REMEMBERED = 10_000
LONGEST_GROUP_ID = 255
"""Characters. A client makes up as many group ids as it likes, of up to 32 KiB; a group with a longer one is never
translated, so that nothing has to be remembered of it."""


class RuleCache:
    """The policy of now, and the groups that were looked up in it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._found: dict[str, Rule] = {}

    def rule_for(self, group_id: str) -> Rule:
        """What the policy says now of a group."""
        rule = self._found.get(group_id)
        if rule is None:
            rule = self._policy.rule_for(group_id)
            if len(group_id) > LONGEST_GROUP_ID:
                return Rule(mode=Mode.OBSERVE, group=group_id) if rule.mode is Mode.TRANSLATE else rule
            if len(self._found) == _REMEMBERED:
                self._found.clear()
            self._found[group_id] = rule
        return rule

    def set_policy(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        self._policy = policy
        self._found.clear()
