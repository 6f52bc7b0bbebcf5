"""What happened: dataclasses, and writers of them."""
