"""What goes over the wire: builds requests and reads replies. Pure: sends nothing, has no clock."""
