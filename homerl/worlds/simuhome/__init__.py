"""SimuHome as a world to play in: blueprints, what is said there, who plays, and how answers are judged."""
