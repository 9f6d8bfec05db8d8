"""UnixFS: files and directories as DAGs of blocks, built, walked and verified."""
