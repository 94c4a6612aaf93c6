"""What is written about recipes for people and editors: the reference of all keys, and their JSON Schema."""
