"""The commands."""


def main() -> None:
    """What `manyheads` on a command line runs."""
    from manyheads.cli.app import main as run

    run()
