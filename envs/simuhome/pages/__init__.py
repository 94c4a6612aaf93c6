"""The HTML pages of SimuHome."""
