"""Where downloads go: first verified bytes, then the finished file or folder."""
