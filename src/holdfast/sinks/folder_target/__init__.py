"""A directory that is written to disk: complete under its name, or not there at all.

::

    names        which names may be written, which two names are one file here, and which symbolic
                 links stay inside
    tree         files and folders below an open folder; no link is followed
    work_folder  the folder beside the target: its lock, its files while they are written and when
                 they are complete, and the step to the target
    spool        the entries of a directory while they wait
    limits       how many entries, levels and bytes a directory may have
"""
