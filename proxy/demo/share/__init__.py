"""The demo's story of a share group (KIP-932): many consumers of few partitions, through the proxy."""
