"""The blocking client, its providers and its verified reads, generated from `_async`.

What cannot be generated is written by hand: `transport`, `connections`, `runtime`, `workers`,
`opening` and `upload_sources`.
"""
