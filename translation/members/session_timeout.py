"""The session timeout of a client: how long it is, when it runs, and which calls start it anew.

It is the number that the client declares in its JoinGroup (``session.timeout.ms``; which are refused:
:mod:`translation.routing.join_routing`); for one that another process served before,
:mod:`translation.joining.adoption` assumes one until it joins. It runs from one sign of life to the next: Heartbeat,
SyncGroup, a commit, and the answer to a JoinGroup start it anew. While a JoinGroup waits for its answer it does not
run, as on a classic broker. When it has run out :mod:`translation.membership.expiry` ends the membership.

The broker's own session timeout (``group.consumer.session.timeout.ms``) is another one: the proxy's heartbeats renew
that, and it decides alone about a client that several processes may serve.
"""

import math

from translation.members.member import Member


def renew(member: Member, now: float) -> None:
    """Start the session timeout anew: the client gave a sign of life. It does not run while a JoinGroup waits."""
    if member.join.waiting is None:
        member.deadlines.session_deadline = now + member.client.session_timeout_ms / 1000
        if member.deadlines.suspended_until < math.inf:
            restart(member, now)


def restart(member: Member, now: float) -> None:
    """Give a client whose timeouts were suspended a whole session timeout, also to rejoin if its time for that ran."""
    deadlines = member.deadlines
    deadlines.suspended_until = math.inf
    if member.join.waiting is None:
        deadlines.session_deadline = now + member.client.session_timeout_ms / 1000
        if deadlines.rebalance_deadline < math.inf:
            deadlines.rebalance_deadline = max(deadlines.rebalance_deadline, deadlines.session_deadline)
