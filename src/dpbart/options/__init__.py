"""Every setting that a person can give, declared once."""
