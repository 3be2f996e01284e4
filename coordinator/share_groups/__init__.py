"""KIP-932 share groups, as Kafka 4.4 behaves: members, epochs, target assignments, and partitions with state.

Theory of operation. A share group has the three epochs of a consumer group, and its work is done in heartbeats too.
But partitions are shared: nobody has to give one up before another member gets it. So a member reaches its target in
one step, nothing is revoked, no member waits for another, and a new assignment never fences anybody. Instead of
committed offsets the group has a state for each partition, which the share coordinator keeps
(:mod:`coordinator.share_state`). Only partitions whose state is initialized are assigned: a heartbeat that finds others
among the subscribed topics records them as initializing and has them initialized after its answer. So a group's first
answer is always an empty assignment.
"""
