"""`python -m unicorn_maml` is the command `unicorn-maml`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interrupt while it is still being imported ends it quietly too."""
    try:
        from unicorn_maml.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
