"""The suite of SimuHome."""
