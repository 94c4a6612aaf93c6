"""The commands that PersonalHome adds to `homerl`: one file each (`homerl/host/terminal.py`)."""
