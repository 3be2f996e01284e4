"""Classic groups: JoinGroup to LeaveGroup, as Kafka 4.4's new coordinator serves them.

A rebalance has two phases. In the join phase (PreparingRebalance) the coordinator collects JoinGroup requests and keeps
them waiting; it ends when all known members have joined, or with the largest rebalance timeout. All members get the new
generation at once, and one of them, the leader, also the list of members. In the sync phase (CompletingRebalance) the
members' SyncGroup requests wait for that of the leader, which brings everybody's assignment.

Unlike consumer groups, a classic group is changed directly and only its outcome is written as a record: a coordinator
that takes over knows the last stable generation and nothing of a rebalance under way.
"""
