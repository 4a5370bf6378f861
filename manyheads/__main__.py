"""`python -m manyheads` is `manyheads`."""

from manyheads.cli import main

main()
