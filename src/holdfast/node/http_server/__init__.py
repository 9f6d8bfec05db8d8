"""The HTTP server of the node: connections, request bodies and replies, within limits.

A client that is slow, stalls or sends too much cannot use up the memory, the threads or the
connections that other clients need.
"""
