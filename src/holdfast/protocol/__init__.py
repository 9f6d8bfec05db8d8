"""Pure: what goes over the wire. Builds requests and reads replies; sends nothing."""
