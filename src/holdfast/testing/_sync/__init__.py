"""The blocking colour. Generated from `_async`, but for `parallel` and `provider_tests`."""
