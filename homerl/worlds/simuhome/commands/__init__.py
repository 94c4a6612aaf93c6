"""The commands that SimuHome adds to `homerl`: one file each (`homerl/terminal/commands.py`)."""
