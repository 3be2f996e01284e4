"""The Kubernetes API, as far as the proxy asks it: one ConfigMap, read as the pod's service account."""
