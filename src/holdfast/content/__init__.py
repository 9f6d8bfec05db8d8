"""Pure: bytes to blocks to CIDs and back. Is fed buffers; no I/O, no clock, no threads."""
