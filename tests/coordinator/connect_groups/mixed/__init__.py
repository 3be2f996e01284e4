"""Classic and new workers in one Connect group, in virtual time: a seed is a history.

Classic workers are those of `tests.hosting.groups.connect.world`, with Connect's own assignor; new ones speak
ConnectGroupHeartbeat. They come, leave, die, lose answers, are rolled from one protocol to the other and back, and the
coordinator restarts.
"""
