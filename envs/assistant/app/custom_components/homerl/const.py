"""Names of the integration."""

DOMAIN = "homerl"

MODE, LANGUAGE, GUARD = "mode", "language", "guard"  # options
AS_STARTED = "as_started"  # the mode of the agent, whatever it is
MODES = (AS_STARTED, "shadow", "confirm", "act")
