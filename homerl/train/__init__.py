"""Training: SFT and step-wise RLVE."""
