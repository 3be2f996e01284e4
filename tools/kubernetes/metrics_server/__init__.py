"""Kubernetes' metrics server in a cluster, where no registry has its image: what autoscalers by CPU go by."""
