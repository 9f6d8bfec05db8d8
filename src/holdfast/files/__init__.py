"""Local bytes: what can be uploaded (sources) and where downloads go (sinks)."""
