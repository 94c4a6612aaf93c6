"""Pages to look at of HomeEnv."""
