"""Language models: endpoints that others serve (`endpoint/`), and policies of this process (`policy/`)."""
