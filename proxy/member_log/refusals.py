"""Why the member log can't be used. Apart from its client, so that it can be named where confluent-kafka is missing."""


class MemberLogRefused(Exception):
    """The member log can't be used; the message says why and what to do, for a person."""


class TopicRefused(MemberLogRefused):
    """The topic is not as it has to be, or the account may not use it."""
