"""`python -m capscore` is the command `capscore`."""

from .cli import main

if __name__ == "__main__":
    main()
