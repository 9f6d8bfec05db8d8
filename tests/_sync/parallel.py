# WARNING: this file is generated from tests/_async/parallel.py
# by scripts/generate_sync.py. Change the original instead.
"""Many calls at once, in the colour of these tests."""

from holdfast.testing._sync.parallel import in_parallel

__all__ = ["in_parallel"]
