"""A raw thing to numbers and back: encode, render."""
