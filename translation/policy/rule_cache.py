"""Caches which rule of the policy applies to a group; every group request asks."""

from collections.abc import Callable

from translation.policy.policy import Mode, Policy, Rule

_REMEMBERED = 10_000
LONGEST_GROUP_ID = 255
"""Characters. A client makes up as many group ids as it likes, of up to 32 KiB; a group with a longer one is never
translated, so that nothing has to be remembered of it."""


class RuleCache:
    """The current policy, and the rules of the groups that were looked up in it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.is_rolled_back: Callable[[str, Rule], bool] = lambda *_: False
        """Whether the move of a group by this rule's steps was aborted: its members go back, as if the policy said
        ``observe``."""
        self._found: dict[str, Rule] = {}
        self._aborted: dict[str, Rule] = {}
        """The rules of groups that are rolled back, as they are written."""

    def written_for(self, group_id: str) -> Rule:
        """The rule that the policy has for a group, also if a move by it was aborted."""
        rule = self.rule_for(group_id)
        return self._aborted.get(group_id, rule)

    def forget(self, group_id: str) -> None:
        """Whether a group is rolled back has changed."""
        self._found.pop(group_id, None)
        self._aborted.pop(group_id, None)

    def rule_for(self, group_id: str) -> Rule:
        """The rule that applies to a group."""
        rule = self._found.get(group_id)
        if rule is None:
            rule = self.policy.rule_for(group_id)
            if rule.staged and self.is_rolled_back(group_id, rule):
                self._aborted[group_id] = rule
                rule = Rule(
                    mode=Mode.OBSERVE,
                    group=rule.group,
                    pattern=rule.pattern,
                    type=rule.type,
                    switch_pause_ms=rule.switch_pause_ms,
                )
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
        self._aborted.clear()
