"""Music that goes on."""
