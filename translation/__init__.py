"""What a classic consumer group call means in the new protocol (KIP-848).

Sans-IO: calls of clients and answers of brokers go in, actions come out, and time is an argument. The
member state machine, the mapping of generations to member epochs and the policy live here. No socket,
no clock and no task may live here.
"""
