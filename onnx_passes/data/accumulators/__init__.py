"""What shards add up to. Each accumulator is associative, bounded, and has a JSON form."""
