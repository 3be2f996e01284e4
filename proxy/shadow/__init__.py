"""Tells beforehand what a move to the new protocol would do to a classic group. It reads, computes, and moves nothing.

The embedded coordinator's assignors are Kafka's own, line by line, so they give what the brokers would. What is not
known before a move are the new member ids, who is told first, and which changes the broker takes together; runs are
drawn at random for them (:mod:`proxy.shadow.run`), and what differs between runs is told as a span.
"""
