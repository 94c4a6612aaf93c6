"""Training by several processes (the recipe's `parallel`): sharded weights, complete checkpoints, and optimizers."""
