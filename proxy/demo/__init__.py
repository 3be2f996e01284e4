"""``epochgate demo``: moves a group live beside one that stays classic; what each membership change costs them.

One group connects to the brokers, the other through a proxy that runs in this process. The figures at the end come
from the consumers' own callbacks and from the broker, never from the proxy. Nothing else in ``proxy`` may import this
package.
"""
