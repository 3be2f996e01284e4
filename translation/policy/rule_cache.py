"""Caches which rule of the policy applies to a group; every group request asks."""

from translation.policy.policy import LONGEST_GROUP_ID, Mode, Policy, Rule

_REMEMBERED = 10_000
_FOR_ANY_ID = frozenset({Mode.OBSERVE, Mode.REJECT})
"""The modes that groups with longer ids may have."""


class RuleCache:
    """The current policy, and the rules of the groups that were looked up in it.

    A group that is *rolled back* is observed, although its rule says ``translate``: its translated members go back to
    the classic protocol as after such a change of the policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._found: dict[str, Rule] = {}
        self._rolled_back: dict[str, Rule] = {}
        """What holds for the groups that are rolled back."""

    @property
    def digest(self) -> str:
        """Names the policy (:mod:`translation.policy.policy`)."""
        return self.policy.digest

    def rule_for(self, group_id: str) -> Rule:
        """The rule that holds for a group."""
        if self._rolled_back and group_id in self._rolled_back:
            return self._rolled_back[group_id]
        return self.written_rule_for(group_id)

    def is_rolled_back(self, group_id: str) -> bool:
        """Whether a group is observed whatever the policy says."""
        return group_id in self._rolled_back

    def rolled_back(self) -> list[str]:
        """The groups that are."""
        return list(self._rolled_back)

    def set_rolled_back(self, group_id: str, rolled_back: bool) -> bool:
        """Note whether a group is rolled back; return whether that is news."""
        if rolled_back == (group_id in self._rolled_back):
            return False
        if rolled_back:
            self._rolled_back[group_id] = _observed(self.written_rule_for(group_id))
        else:
            del self._rolled_back[group_id]
        return True

    def written_rule_for(self, group_id: str) -> Rule:
        """The rule that the policy has for a group."""
        rule = self._found.get(group_id)
        if rule is None:
            rule = self.policy.rule_for(group_id)
            if len(group_id) > LONGEST_GROUP_ID:
                return rule if rule.mode in _FOR_ANY_ID else Rule(mode=Mode.OBSERVE, group=group_id)
            if len(self._found) == _REMEMBERED:
                self._found.clear()
            self._found[group_id] = rule
        return rule

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy and forget all cached rules."""
        self.policy = policy
        self._found.clear()
        self._rolled_back = {
            group_id: _observed(self.written_rule_for(group_id)) for group_id in self._rolled_back
        }


def _observed(rule: Rule) -> Rule:
    if rule.mode is not Mode.TRANSLATE:
        return rule
    return Rule(
        mode=Mode.OBSERVE,
        group=rule.group,
        groups=rule.groups,
        pattern=rule.pattern,
        type=rule.type,
        assignor=rule.assignor,
        mend=rule.mend,
    )
