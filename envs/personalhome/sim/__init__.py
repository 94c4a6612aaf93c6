"""The simulator of PersonalHome: households as data, and the tools to look at them and act in them."""
