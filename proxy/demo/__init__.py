"""``epochgate demo``: two groups of the same consumers side by side, and what each membership change costs them.

One group connects to the brokers as a classic group, the other connects through a proxy that runs in this
process. The figures at the end come from the consumers' own callbacks and from the broker, never from the proxy.
Nothing else in ``proxy`` may import this package.
"""
