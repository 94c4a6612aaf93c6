"""MCTS-Flow: search for verified trajectories (HomeFlow 3.3.2)."""
