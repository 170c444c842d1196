"""What an attacker gets, what an audit finds, and which epsilon to choose. Only public or made-up texts come here."""
