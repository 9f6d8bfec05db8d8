"""The providers that come with Holdfast, async."""
