"""Kafka on the wire, without sockets: frames, headers, the versions a client is offered, broker addresses."""
