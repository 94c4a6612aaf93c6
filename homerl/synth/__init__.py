"""Synthesis of verified trajectories, by tree search (MCTS-Flow, HomeFlow 3.3.2) or by simpler strategies."""
