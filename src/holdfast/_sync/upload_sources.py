"""What a blocking client can upload: the twin of `_async/upload_sources.py`."""

from holdfast.sources.folder_source import open_file_or_folder as open_upload
from holdfast.sources.sources import Uploadable

__all__ = ["Uploadable", "open_upload"]
