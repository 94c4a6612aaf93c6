"""The benchmark suite of SimuHome."""
