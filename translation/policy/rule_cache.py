"""Caches which rule of the policy applies to a group, since every group request needs it."""

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
        self.rolled_back: dict[str, Rule] = {}
        """The groups that are rolled back, each with the rule that the policy has for it."""
        self._found: dict[str, Rule] = {}
        """The rules that hold, of the groups that were looked up."""

    @property
    def digest(self) -> str:
        """Names the policy (:mod:`translation.policy.policy`)."""
        return self.policy.digest

    def rule_for(self, group_id: str) -> Rule:
        """The rule that holds for a group."""
        rule = self._found.get(group_id)
        return self._find(group_id) if rule is None else rule

    def written_rule_for(self, group_id: str) -> Rule:
        """The rule that the policy has for a group."""
        written = self.rolled_back.get(group_id)
        return self.rule_for(group_id) if written is None else written

    def set_rolled_back(self, group_id: str, rolled_back: bool) -> bool:
        """Note whether a group is rolled back; return whether that is news."""
        if rolled_back == (group_id in self.rolled_back):
            return False
        if rolled_back:
            self.rolled_back[group_id] = self.rule_for(group_id)
        else:
            del self.rolled_back[group_id]
        self._found.pop(group_id, None)
        return True

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy and forget all cached rules."""
        self.policy = policy
        self._found.clear()
        self.rolled_back = {group_id: self._read(group_id) for group_id in self.rolled_back}

    def _find(self, group_id: str) -> Rule:
        written = self.rolled_back.get(group_id)
        rule = self._read(group_id) if written is None else _observed(written)
        if len(group_id) <= LONGEST_GROUP_ID:
            if len(self._found) == _REMEMBERED:
                self._found.clear()
            self._found[group_id] = rule
        return rule

    def _read(self, group_id: str) -> Rule:
        """What the policy says of a group; one with a longer id is observed if it can't have the rule's mode."""
        rule = self.policy.rule_for(group_id)
        if len(group_id) > LONGEST_GROUP_ID and rule.mode not in _FOR_ANY_ID:
            return Rule(mode=Mode.OBSERVE, group=group_id)
        return rule


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
