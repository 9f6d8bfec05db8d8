"""The pinning API of the node: the same endpoints, replies and errors as the pinning service."""
