"""From bytes to blocks to CIDs and back. Pure: no I/O, no clock, no threads.

These names are public. The modules below are not: their names and paths may change.

Example:
    >>> from holdfast.content import PROFILES, FileImporter
    >>> blocks = {}
    >>> importer = FileImporter(PROFILES["unixfs-v1-2025"], blocks.__setitem__)
    >>> importer.update(b"hello")
    >>> str(importer.finish().cid)
    'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.content.blocks import check_block, inline_block
    from holdfast.content.car import CarReader, write_car
    from holdfast.content.cid import CID
    from holdfast.content.codecs import links_of
    from holdfast.content.profiles import PROFILES, Profile
    from holdfast.content.reference import Reference
    from holdfast.content.unixfs.body import BodyProof
    from holdfast.content.unixfs.directories import build_directory
    from holdfast.content.unixfs.files import FileImporter
    from holdfast.content.unixfs.walks import DirectoryWalk, FileWalk, PathWalk

__all__ = [
    "CID",
    "PROFILES",
    "BodyProof",
    "CarReader",
    "DirectoryWalk",
    "FileImporter",
    "FileWalk",
    "PathWalk",
    "Profile",
    "Reference",
    "build_directory",
    "check_block",
    "inline_block",
    "links_of",
    "write_car",
]

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "content.blocks": "check_block inline_block",
            "content.car": "CarReader write_car",
            "content.cid": "CID",
            "content.codecs": "links_of",
            "content.profiles": "PROFILES Profile",
            "content.reference": "Reference",
            "content.unixfs.body": "BodyProof",
            "content.unixfs.directories": "build_directory",
            "content.unixfs.files": "FileImporter",
            "content.unixfs.walks": "DirectoryWalk FileWalk PathWalk",
        },
        __all__,
    )
