"""What is looked at before a run begins its work: the machine, an episode of each source of tasks, the prompts."""
