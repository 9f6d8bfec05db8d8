"""The blocking client, its providers and its verified reads, generated from `_async`.

`transport`, `connections`, `exchange_limits` and `runtime` are written by hand.
"""
