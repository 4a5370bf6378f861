"""Text that goes on."""
