"""What `scripts/credit_study` is made of: policies that are tables, tiny language models, and how both are shown."""
