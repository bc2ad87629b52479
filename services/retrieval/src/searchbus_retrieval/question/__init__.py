"""What a question says: dates, quantities, words, and what a profile knows of its collection."""
