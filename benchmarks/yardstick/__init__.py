"""What the program says of a frozen set of models, compared line by line with what it said."""
