"""The command `capscore`, one file a command."""


def main() -> None:
    """The entry point of the command."""
    # before anything slow is imported, so that Ctrl-C ends that as well
    from .process import main as run

    run()
