"""Local files: what can be uploaded, where downloads go, and their CIDs."""
