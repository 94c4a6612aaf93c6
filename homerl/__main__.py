"""`python -m homerl`."""

from homerl.app.cli import main

main()
