"""Sockets: TCP and TLS streams, the epoll loop, relaying in one direction, splicing, listening."""
