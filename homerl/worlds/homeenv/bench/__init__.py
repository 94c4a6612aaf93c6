"""SmartHome-Bench and SMH-Bench."""
