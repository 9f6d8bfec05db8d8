"""Verified reads.

`reader` is the base class of all readers, over the sources of blocks in `blocks`: blocks that are
fetched one by one, or an archive, whose blocks come in the order of a walk, for folders and copies.
One reader reads from HTTP gateways, none of which is trusted. Its steps are::

    gateway_reader   a small raw block: send, read, hash, compare; only if that is not enough:
                     make a ReadState: what is wanted, what is known, what is verified;
                     ask the gateways one after the other; wait, and ask again those that may help;
                     or let them race to the first verified bytes, and continue with the winner
    strategies       one gateway: try the strategies in order, until one completes the read;
                     each sends a request and returns a transfer
    streams          receive a body in batches; verify one while the next one arrives
    state            the output: what is verified is written into the sink

A strategy sends its requests through the peer in `state`, which also decides which error to raise
when the gateway refuses them. When an attempt fails, the verified bytes stay in the output, and the
next attempt continues after them.
"""
