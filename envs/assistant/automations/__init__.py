"""Automations of people, read and made rules of a home."""
