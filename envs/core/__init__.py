"""The ground: what every simulator is made of, and what reads the files that people edit. It knows no world."""
