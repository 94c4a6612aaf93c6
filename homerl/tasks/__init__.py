"""Tasks for whoever has a trainer or an agent of their own: `homerl.load_suite`, `homerl.load_tasks`."""
