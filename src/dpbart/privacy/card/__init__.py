"""The privacy card: the guarantee of a run, written for people, programs and auditors."""
