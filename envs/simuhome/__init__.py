"""SimuHome: homes of Matter devices in virtual time, and the tasks in them, after the paper SimuHome (ICLR 2026).

`sim/` is the simulator, whose docstring lists where it follows the paper's released program, and where it does not.
"""
