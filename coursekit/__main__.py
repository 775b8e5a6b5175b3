"""`python -m coursekit`."""

from coursekit.cli import main

main()
