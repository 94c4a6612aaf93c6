"""`python -m homerl.cli`."""

from homerl.cli import main

main()
