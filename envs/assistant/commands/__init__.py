"""The commands for a Home Assistant: one file each (`homerl/host/terminal.py`)."""
