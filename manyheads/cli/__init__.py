"""The commands."""


def main() -> None:
    """Run the command `manyheads`."""
    from manyheads.cli.app import main as run

    run()
