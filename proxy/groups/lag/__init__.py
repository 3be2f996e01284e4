"""The lag of consumer groups: committed offsets and log ends, asked at the brokers with the fleet's account.

``readings`` is what is told, also when it is not known; :class:`~proxy.groups.lag.reader.LagReader` is what others use;
``questions`` asks by librdkafka's admin client, beside trio.
"""
