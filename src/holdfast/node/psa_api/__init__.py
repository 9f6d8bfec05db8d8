"""The IPFS Pinning Services API of the node, below ``/psa``, for `ipfs pin remote` and others.

- `endpoints`: the routes and the five calls
- `request_body` and `list_query`: what a client sends
- `pin_request`: one request, and its time
- `pin_requests`: the requests of a node, from its pins, its jobs and a table of its own
- `request_table`: that table
- `json_status`: what a client gets
"""
