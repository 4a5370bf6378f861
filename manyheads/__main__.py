"""`python -m manyheads` is `manyheads`."""

from manyheads.cli.app import main

main()
