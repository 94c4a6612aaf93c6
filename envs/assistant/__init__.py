"""An agent for a Home Assistant: its home is read (`listing/`, `automations/`), and the agent is served to it
(`serving/`).
"""
