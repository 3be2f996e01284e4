"""Classic groups: JoinGroup to LeaveGroup, as Kafka 4.4's new coordinator serves them.

A rebalance has two phases. In the join phase (PreparingRebalance) the coordinator collects JoinGroup requests without
answering them; the phase ends when all known members have joined, or after the largest rebalance timeout. Then all
members get the new generation, and one of them, the leader, also the list of members. In the sync phase
(CompletingRebalance) the members' SyncGroup requests wait for the leader's, which contains all assignments.

Unlike consumer groups, a classic group is changed directly and only its outcome is written as a record: a coordinator
that takes over knows the last stable generation, but no rebalance in progress.
"""
