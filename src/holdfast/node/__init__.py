"""The local node: the pinning API and the gateway protocols over one repository."""
