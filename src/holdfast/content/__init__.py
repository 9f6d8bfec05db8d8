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
    from holdfast.content.blocks import check_block as check_block
    from holdfast.content.blocks import inline_block as inline_block
    from holdfast.content.car import CarReader as CarReader
    from holdfast.content.car import write_car as write_car
    from holdfast.content.cid import CID as CID
    from holdfast.content.codecs import links_of as links_of
    from holdfast.content.profiles import PROFILES as PROFILES
    from holdfast.content.profiles import Profile as Profile
    from holdfast.content.reference import Reference as Reference
    from holdfast.content.unixfs.body import BodyProof as BodyProof
    from holdfast.content.unixfs.directories import build_directory as build_directory
    from holdfast.content.unixfs.files import FileImporter as FileImporter
    from holdfast.content.unixfs.walks import DirectoryWalk as DirectoryWalk
    from holdfast.content.unixfs.walks import FileWalk as FileWalk
    from holdfast.content.unixfs.walks import PathWalk as PathWalk

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__, __all__ = lazy_names(
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
    )
