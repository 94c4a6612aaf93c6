"""What a program needs of its machine, whatever it computes: the terminal, processes, web servers, templates of pages, files
of recipes, and the hook by which Python starts a recipe.

What knows of dialogues, tasks or scores belongs to the rooms above, beside its users.
"""
