"""Upkeep of a store: collect garbage, check blocks and databases, and repair what is damaged."""
