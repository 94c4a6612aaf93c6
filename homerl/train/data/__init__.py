"""What an update learns from: dialogues for SFT, rollouts for RLVE, and which blueprints are played next."""
