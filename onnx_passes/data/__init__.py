"""Whole data sets: read in shards, evaluated by workers, added up, judged with confidence."""
