"""What a device is: its interface, the compiled code of its services, its effect on the air, and the checks of its file."""
