"""Sockets: TCP and TLS streams, dialling brokers, listening, the epoll loop, relaying in one direction, splicing."""
