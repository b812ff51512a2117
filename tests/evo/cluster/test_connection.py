"""A cluster's address that nobody answers at."""

import socket

import pytest

from evo.config.cluster import parse_cluster
from evo.errors import BadInput

connection = pytest.importorskip("evo.cluster.connection", reason="ray is not installed")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_where_nobody_listens_is_one_line_at_once(scheme):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with pytest.raises(BadInput, match="no Ray cluster can be joined .*is its head running"):
            connection.connect(parse_cluster(f"{scheme}127.0.0.1:{taken.getsockname()[1]}"))
