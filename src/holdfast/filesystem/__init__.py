"""IPFS as a file system of fsspec, for pandas, pyarrow, DuckDB, zarr, xarray, Dask and others.

Where Holdfast is installed with ``holdfast[fsspec]``, these tools know the protocol ``holdfast``::

    pandas.read_csv("holdfast://CID/a.csv")

After `register_ipfs()`, ``ipfs://CID/a.csv`` reads public content, without an account.

The parts are::

    file_system    the methods that fsspec calls, and files that are open for reading
    instances      which instances are shared, and that none shows a secret
    paths          what a path means: content under a CID, or a file that is being written;
                   which files of this machine a put copies, and where to
    staging        the files that a transaction writes, until they are uploaded
"""

try:
    from holdfast.filesystem.file_system import HoldfastFileSystem, IPFSFileSystem, register_ipfs
except ModuleNotFoundError as _missing:
    if _missing.name != "fsspec":
        raise
    raise ModuleNotFoundError(
        "the file system needs fsspec: pip install 'holdfast[fsspec]'", name="fsspec"
    ) from None

__all__ = ["HoldfastFileSystem", "IPFSFileSystem", "register_ipfs"]
