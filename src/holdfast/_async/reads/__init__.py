"""Verified reads: content from gateways, none of which is trusted."""
