"""What all tests share: the plugin that the package brings, and how the JVMs of tests start."""

import os

import pytest
from hypothesis import settings

# A test's JVM lives for a minute, so most of what it does is to load classes and to compile. It compiles quickly, collects garbage in
# one thread and trusts Spark's jars: that halves its processor time. `SPARK_SUBMIT_OPTS= pytest …` runs with ordinary ones.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# No test asserts a time, neither does Hypothesis. The default ring looks at fewer examples; what a test says itself holds in both rings.
settings.register_profile("default ring", deadline=None, max_examples=40)
settings.register_profile("slow ring", deadline=None, max_examples=200)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("default ring" if config.getoption("markexpr") == "not slow" else "slow ring")
    if not config.pluginmanager.has_plugin("perseid"):
        import perseid_pytest

        config.pluginmanager.register(perseid_pytest, "perseid")
