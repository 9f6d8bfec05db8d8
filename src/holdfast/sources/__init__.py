"""What can be uploaded: bytes, files, folders, archives, streams, and their CIDs."""
