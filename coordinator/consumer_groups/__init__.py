"""KIP-848 consumer groups, as Kafka 4.4 behaves: members, epochs, target assignments and reconciliation.

Theory of operation. A group has three epochs. The *group epoch* rises when anything changes that an assignment depends
on (members, subscriptions, topics). The *assignment epoch* is the group epoch for which the target assignment was last
computed. Each member has its own *member epoch*: the assignment epoch that it has reached. All work is done in the
members' heartbeats: a heartbeat may bump the group epoch, then compute the target assignment, then move its member one
step towards it (:mod:`reconciliation`). A partition is given to its next owner only after the current owner no longer
reports it.
"""
