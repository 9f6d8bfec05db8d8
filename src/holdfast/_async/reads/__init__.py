"""Verified reads.

Two readers have the interface in `interface`: one over HTTP gateways, none of which is trusted, and
one over anything that gives the block of a CID. The steps of a read through gateways are::

    gateway_reader   make a ReadState: what is wanted, what is found out, what is verified
    rounds           ask the gateways one after the other; wait, and ask again those that may help
      hedging        or let them race to the first verified bytes, and go on with the winner
    attempt          one gateway: try the strategies in order, until one brings all
      small_block    a small raw block: send, read, hash, compare
      strategies/    the others, one per file; each sends a request and returns a transfer
    streams          receive a body in batches; verify one while the next one arrives
    output           write what is verified into the sink

A strategy asks its gateway through `peer`, and `refusals` says what it means when the gateway does
not give what it is asked for. What is verified stays in the state when an attempt
fails. The next one goes on behind it.
"""
