"""Hosted groups: the seam to the translation and the proxy, their calls, their replicas, and the groups themselves."""
