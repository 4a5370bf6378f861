"""Images: drawn pixel by pixel, completed, and found likely or not."""
