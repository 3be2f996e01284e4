"""A real Kubernetes on this machine, which gets its images from :mod:`tools.image`.

``python -m tools.kubernetes up|down|status|image|build``. Nodes are namespaces of this machine's kernel, joined by a
bridge of their own; the programs are built once from sources that ``go.sum`` pins (docs/contributing/testing.md).
"""
