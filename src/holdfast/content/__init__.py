"""From bytes to blocks to CIDs and back. Pure: no I/O, no clock, no threads."""
