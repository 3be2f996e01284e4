"""Checks the Helm chart with helm, kubeconform and helm-docs, built from the Go module proxy, and with schemas.

``python -m tools.chart build`` builds the programs once, into ``build/tools``; ``docs`` writes the chart's README from
the comments in its values, ``golden`` renews the manifests that the tests compare with.
"""
