"""SimuHome's tasks: blueprints, who plays them, and the language of their people."""
