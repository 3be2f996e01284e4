"""``epochgate demo``: two groups of the same unmodified consumers side by side, and what each change costs them.

One group goes straight to the brokers as a classic group, the other through a proxy that runs in this
process. What is told at the end comes from the consumers' own callbacks and from the broker, never from the proxy.
Nothing else in ``proxy`` may import this package.
"""
