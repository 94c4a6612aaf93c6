"""PersonalHome: households with people, memories and appliances, and the tools to look at them and act in them.

The world of PersonalHomeBench (arXiv 2604.16813). A household is data (`household.py`); `generate/` makes it from a seed.
Its appliances are devices of a HomeEnv home, described by the files in `catalogue/`.
"""
