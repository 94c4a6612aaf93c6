"""What every HTML page of homerl has: one file without network, one palette."""
