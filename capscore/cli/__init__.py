"""The command `capscore`, one file a command."""


def main() -> None:
    """The entry point of the command."""
    from .app import main as run

    run()
