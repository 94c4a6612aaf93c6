"""What never changes in a home: its devices and rooms in order, where it comes from, and conditions compiled against it."""
