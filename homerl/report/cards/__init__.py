"""Results for others: models, datasets, schemas, and uploads to the hub."""
