"""Requests and replies of HTTP APIs: build the one, read the other. Pure: no I/O and no clock."""
