"""The blocking colour. Generated from `_async`, but for `transport` and `runtime`."""
