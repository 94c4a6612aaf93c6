"""What is said in HomeEnv."""
