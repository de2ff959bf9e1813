"""`python -m unicorn_maml` is the command `unicorn-maml`."""

from unicorn_maml.cli.main import main

main()
