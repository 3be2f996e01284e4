"""Client-side assignors in virtual time: members whose assignor is slow, wrong, out of date or dies, and a judge.

:mod:`plan` makes a history of a seed, :mod:`world` plays it, :mod:`members` are the clients, :mod:`assignors` what they
compute, and :mod:`judge` what must hold. The judge reads requests, answers and the log's bytes, and knows nothing of
``coordinator.consumer_groups.client_side``.
"""
