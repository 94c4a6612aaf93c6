"""Playing: messages, episodes, the loop of agent, user and home, trajectories."""
