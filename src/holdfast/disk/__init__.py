"""Files on disk: safe folders, files that appear complete, locks, journals, caches."""
