"""HTTP servers of this machine: where they listen, whom they admit, and the forms of OpenAI's answers."""
