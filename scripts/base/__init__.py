"""Makes the folders of base models where the hub cannot be reached."""
