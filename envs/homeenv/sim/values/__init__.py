"""What values are and how they are written: types, expressions, moments, and the rules by which they are refused."""
