"""The Prometheus operator and a Prometheus of its own in a cluster, where no registry has their images."""
