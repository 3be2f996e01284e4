"""Hosted groups: classic clients whose group the room in :mod:`hosting.groups` serves."""
