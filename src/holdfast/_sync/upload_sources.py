"""What a blocking client can upload: the twin of `_async/upload_sources.py`."""

from holdfast.files.sources import Uploadable
from holdfast.files.sources import open_source as open_upload

__all__ = ["Uploadable", "open_upload"]
