"""What compiled code stands on."""
