"""The blocking client, its providers and its verified reads, generated from `_async`.

`transport`, `connections` and `runtime` are written by hand.
"""
