"""Decides which owned partitions the broker is told of: in a JoinGroup, in a Heartbeat, and what that gives up.

In the new protocol an owned list acknowledges the revocation of every partition that it omits, and the broker may give
those to others at once (KIP-848, "Reconciliation"). So a partition that the client may still work on must be in every
list that goes out:

* A JoinGroup carries the client's own list, from its subscription: :func:`owned_in_join`.
* A heartbeat carries no list (null), which acknowledges nothing, unless :func:`has_to_report_owned` says that it must.
  Then the list is ``HeldPartitions.possibly_owned``, all that the client may work on.
* What a list gave up is taken off ``HeldPartitions.pending_revocation`` when the broker has answered:
  :func:`acknowledge`.
"""

from protocol_codecs import Uuid
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolSubscription
from translation.actions import EventKind
from translation.engine.events import Events
from translation.engine.member_log_view import MemberLogView
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure
from translation.partitions import NONE, Partitions
from translation.upstream.metadata_lookup import lookup_topics


def reported_partitions(subscription: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    """The (topic name, partition) pairs that a client's subscription reports as owned.

    Some may be of topics that it has just unsubscribed from (franz-go): it works on them until its SyncGroup says that
    they are gone, so the broker must not give them away before.
    """
    return {(owned.topic, index) for owned in subscription.owned_partitions for index in owned.partitions}


def owned_in_join(
    environment: Environment,
    topic_names: dict[Uuid, str],
    member: Member,
    reported_owned: set[tuple[str, int]],
) -> Procedure[Partitions]:
    """What the broker is told that the client owns: what its JoinGroup reports, by topic id.

    The report of a member that this process knows is cut to what the client reported or was assigned before; it can
    hold nothing else. A member that another process serves, or may have served, has been assigned partitions that are
    unknown here, so its report is taken as it is. Topics that the broker does not know are left out. The report has
    names: of a topic that was deleted and created again, the partitions that are assigned now are meant.
    """
    if not reported_owned:
        return NONE
    if member.joined and not member.adopted:
        names = topic_names
        assigned = member.partitions.broker_assignment
        by_age = sorted(member.partitions.possibly_owned, key=lambda pair: (pair in assigned, pair))
        known = {(names.get(pair[0]), pair[1]): pair for pair in by_age}
        if environment.settings.sole_process or reported_owned <= known.keys():
            return frozenset(pair for name, pair in known.items() if name in reported_owned)
    ids, _ = yield from lookup_topics(
        environment, topic_names, frozenset(topic for topic, _ in reported_owned)
    )
    return frozenset((ids[topic], index) for topic, index in reported_owned if topic in ids)


def emit_revoked(events: Events, member: Member, owned_partitions: Partitions) -> None:
    """Emit what the client gave up with its JoinGroup: from now on it does not work on that, however long it waits."""
    if not member.joined or member.adopted:
        return
    given_up = member.partitions.possibly_owned - owned_partitions
    if given_up:
        member.partitions.reported_owned = owned_partitions
        events.emit(EventKind.REVOKED, member, partitions=given_up)


def has_to_report_owned(
    environment: Environment, member_log: MemberLogView, member: Member, *, client_is_here: bool
) -> bool:
    """Whether a heartbeat has to be a full one, which reports all that the client may work on.

    That is so after a lost response, while the member epoch is 0, and when the broker waits for partitions that the
    client never had. With several proxy processes a Heartbeat of a client (``client_is_here``) reports it too, if the
    response with a change may have gone to another process that served the client before (:func:`_may_have_missed`). A
    heartbeat of an adopted member reports nothing, because what its client works on is unknown until it joins here.
    """
    if member.adopted:
        return False
    never_had = not member.partitions.pending_revocation <= member.partitions.possibly_owned
    return (
        member.broker.reply_lost
        or member.member_epoch == 0
        or (
            client_is_here
            and (
                never_had
                or (
                    not environment.settings.sole_process
                    and _may_have_missed(environment, member_log, member)
                )
            )
        )
    )


def _may_have_missed(environment: Environment, member_log: MemberLogView, member: Member) -> bool:
    """Whether another process may have got a response for the member, with a change that is unknown here.

    Without a member log that may be so at any time, and while the log is away. With one, only this replica speaks for
    the member; but heartbeats of the one before may still be under way, and for two session timeouts that is assumed.
    From then on what the client may own is reported now and then, so that no error of that kind lasts.
    """
    now, broker = environment.now, member.broker
    return (
        now - broker.reported_at >= environment.settings.report_interval_s
        or (now - broker.taken_over_at) * 1000 < 2 * member.client.session_timeout_ms
        or not member_log.knows_who_serves(member)
    )


def acknowledge(member: Member, assigned: Partitions, owned: Partitions | None) -> Partitions:
    """Take over the assignment of the broker's response, and return what the request's owned list has given up.

    ``owned`` is that list; None if the request carried none. Withdrawn partitions that it did not give up stay in
    ``pending_revocation``, unless they are assigned again.
    """
    withdrawn = member.partitions.pending_revocation | (member.partitions.broker_assignment - assigned)
    released = NONE if owned is None else withdrawn - owned
    member.partitions.broker_assignment = assigned
    member.partitions.pending_revocation = withdrawn - released - assigned
    return released
