"""Home Assistant as others run it: a client, and what it says of a home."""
