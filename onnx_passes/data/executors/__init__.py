"""What runs shards: this process, a pool of processes, or a Dask cluster."""
