"""PersonalHome's tasks: questions and plans, who plays them, and the rules that judge."""
