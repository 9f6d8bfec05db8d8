"""The tests of blocking providers, generated from `_async`.

`parallel` and `provider_tests` are written by hand.
"""
