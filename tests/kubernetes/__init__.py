"""The image and the chart in a real Kubernetes (``tools/kubernetes``)."""
