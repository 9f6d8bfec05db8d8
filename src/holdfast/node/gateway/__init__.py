"""The gateway of the local node: serves the content of the repository under ``/ipfs/{cid}/path``.

It has two protocols: the path gateway serves files and directories, and the trustless gateway
serves blocks and archives that the client verifies itself. Each response format has its own file.
"""
