"""Play: messages, episodes, trajectories, and the loop of agent, user and world."""
