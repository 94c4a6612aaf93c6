"""What people read of a run: pages of trajectories and scores (`pages/`), model and data cards (`cards/`)."""
