"""What leaves the machine: models, datasets, schemas, the hub."""
