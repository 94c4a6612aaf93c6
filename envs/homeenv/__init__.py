"""HomeEnv (HomeFlow 3.2, 3.3): a simulator of smart homes whose results can be verified, and the tasks in it.

`sim/` is the simulator, `maker/` makes its homes, `tasks/` asks for changes in them, and `adapter.py` offers it all as a
world.
"""
