"""Caches which rule of the policy applies to a group; every group request asks."""

from translation.policy.policy import Mode, Policy, Rule

_REMEMBERED = 10_000
LONGEST_GROUP_ID = 255
"""Characters. A client makes up as many group ids as it likes, of up to 32 KiB; a group with a longer one is never
translated, so that nothing has to be remembered of it."""


class RuleCache:
    """The current policy, and the rules of the groups that were looked up in it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._found: dict[str, Rule] = {}

    def rule_for(self, group_id: str) -> Rule:
        """The rule that applies to a group."""
        rule = self._found.get(group_id)
        if rule is None:
            rule = self.policy.rule_for(group_id)
            if len(group_id) > LONGEST_GROUP_ID:
                return Rule(mode=Mode.OBSERVE, group=group_id) if rule.mode is Mode.TRANSLATE else rule
            if len(self._found) == _REMEMBERED:
                self._found.clear()
            self._found[group_id] = rule
        return rule

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy and forget all cached rules."""
        self.policy = policy
        self._found.clear()
