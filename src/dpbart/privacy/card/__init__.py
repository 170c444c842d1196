"""The privacy card: what was promised, written down for people, programs and auditors."""
