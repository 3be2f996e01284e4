"""What operators see: groups and members with their recent history, metrics, journal, status page, HTTP API.

Everything here consumes events and produces snapshots. No client request waits for it.
"""
