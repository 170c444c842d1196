"""What a whole collection says: released at once, under one guarantee for each person."""
