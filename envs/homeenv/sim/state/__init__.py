"""What changes in a home: its values by calls of services, and all that time does to values, air and rules."""
