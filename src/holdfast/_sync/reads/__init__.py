# WARNING: this file is generated from src/holdfast/_async/reads/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""Verified reads.

`interface` is the interface of all readers. One reads from HTTP gateways, none of which is trusted.
The others read from a source that returns the block of a CID. The steps of a read through gateways
are::

    small_block      a small raw block: send, read, hash, compare; only if that is not enough:
    gateway_reader   make a ReadState: what is wanted, what is known, what is verified
    rounds           ask the gateways one after the other; wait, and ask again those that may help
      hedging        or let them race to the first verified bytes, and continue with the winner
    attempt          one gateway: try the strategies in order, until one completes the read
      strategies/    one per file; each sends a request and returns a transfer
    streams          receive a body in batches; verify one while the next one arrives
    output           write what is verified into the sink

A strategy sends its requests through `peer`. `refusals` decides which error to raise when the
gateway refuses them. When an attempt fails, the verified bytes stay in the output, and the next
attempt continues after them.

`archive_feed` gives the blocks of an archive in the order in which they are needed, for folders and
copies.
"""
