"""The benchmarks SmartHome-Bench (HomeFlow) and SMH-Bench."""
