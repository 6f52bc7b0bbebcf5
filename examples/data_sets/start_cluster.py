"""Start a Dask cluster of two workers on this machine: ``python start_cluster.py``.

It listens on 127.0.0.1 only, and runs until Ctrl-C.
"""

import sys
import time
from contextlib import suppress

from distributed import LocalCluster


def main(port: int = 8786) -> None:
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        scheduler_port=port,
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address=None,
    ) as cluster:
        print(f"two workers are ready: --scheduler {cluster.scheduler_address}", flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*map(int, sys.argv[1:]))
