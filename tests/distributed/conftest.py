import dask
import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def client():
    """Two worker processes of one thread each. A lost one is given up after two seconds, and comes back."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client
