"""The machine that homerl runs on: terminal, processes, web servers, pages, recipe files, and the launch hook."""
