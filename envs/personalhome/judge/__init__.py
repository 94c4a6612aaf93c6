"""The judges of PersonalHomeBench: plans by role play (Algorithm 1), answers by meaning, and people who check both."""
