"""The commands that HomeEnv adds to `homerl`: one file each (`homerl/host/terminal.py`)."""
