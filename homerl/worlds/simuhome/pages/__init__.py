"""Pages to look at of SimuHome."""
