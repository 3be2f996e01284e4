"""Whether a group that has been seen could be translated under another policy, and why not."""

from protocol_codecs.classic_clients import Refusal
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Policy, Rule
from translation.reasons import refusal_of


def why_not_under(policy: Policy, rule: Rule, client: ClientOffer | None, why_not: str | None) -> str | None:
    """Return why a group can't be translated under this policy; None if it can.

    ``client`` is what its client offers, if that is known, and ``why_not`` the reason under the policy before.
    """
    if client is None:
        return why_not
    refused = client.refused(policy, rule)
    if refused is not None:
        return refused.text
    kind = None if why_not is None else refusal_of(why_not)
    # What the leader writes into assignments is not in the offer.
    return why_not if kind in (None, Refusal.ASSIGNMENT_USER_DATA) else None
