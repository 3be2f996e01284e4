"""What the live verification brings into the proxy: the rules alone."""

import subprocess
import sys

LOADS = """
import sys
import proxy.server.server, proxy.proof.live_proof
for name in ("pyspark", "pandas", "pyarrow", "matplotlib", "confluent_kafka"):
    assert name not in sys.modules, name
loaded = {name.split(".")[1] for name in sys.modules if name.startswith("pipeline.")}
assert loaded == {"rules"}, loaded
"""


def test_the_proxy_loads_the_rules_and_nothing_else_of_the_pipeline():
    subprocess.run([sys.executable, "-c", LOADS], check=True, timeout=60)
