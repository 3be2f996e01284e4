"""The project's images, and podman, which builds and runs them.

``python -m tools.image`` builds one from the Dockerfile, or a Kafka (``--target kafka``).
Nothing here knows Kubernetes.
"""
