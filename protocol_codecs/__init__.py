"""Kafka's wire format: bytes to typed messages and back.

Here live the declarations of messages, the compiler that turns a declaration into an encoder and a
decoder for each version, and the embedded consumer protocol. No socket, no clock and no group state
may live here.
"""
