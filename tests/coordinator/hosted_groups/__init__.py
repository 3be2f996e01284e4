"""Hosted groups: classic clients whose group the room in :mod:`coordinator.hosted_groups` serves."""
