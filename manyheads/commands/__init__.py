"""The commands, a file for each thing one does; each loads what it needs when it runs."""
