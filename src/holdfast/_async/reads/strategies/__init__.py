"""The strategies: ways to ask one gateway for content and to verify it, one per file."""
