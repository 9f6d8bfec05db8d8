"""Copies of content at other providers, under the same CIDs.

::

    copier      one copy: asks the target, chooses the method, sets the name and key-values
    uploading   for targets without archives: as a file or folder that has the same CID there

The journal itself is in `holdfast.disk.copy_journal`.
"""
