"""HomeMaker: generates coherent homes, from real weather to the state of each device (HomeFlow 3.2.2)."""
