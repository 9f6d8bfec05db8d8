"""A directory that is written to disk: complete under its name, or not there at all.

::

    names        which names may be written, and which two names are one file here
    links        which symbolic links stay inside
    tree         files and folders below an open folder; no link is followed
    work_folder  the folder beside the target: its lock, its parts, and the step to the target
    part_file    one file while it is written
    saved        whether a file that is there has the content of a CID
    spool        the entries of a directory while they wait
    limits       how many entries, levels and bytes a directory may have
"""
