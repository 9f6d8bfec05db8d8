# WARNING: this file is generated from src/holdfast/_async/folder_download/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""Downloads of directories to disk.

::

    download         the whole download: the work folder, the directory, the last step
    directories      each directory: its names are listed and checked, then its entries are fetched
    entries          each entry: a file or a symbolic link is written, a directory comes later
    source           blocks and files from the reader of a provider, by CID or by path

What is refused, and how it is written, is in `holdfast.files.folder_target`.
"""
