"""Play: messages, episodes, trajectories, the loop of agent, user and world, and the scripted user."""
