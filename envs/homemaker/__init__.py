"""HomeMaker: homes that hang together, from real weather to indoor state (HomeFlow 3.2.2)."""
