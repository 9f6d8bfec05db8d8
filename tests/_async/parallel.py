"""Many calls at once, in the colour of these tests."""

from holdfast.testing._async.parallel import in_parallel

__all__ = ["in_parallel"]
