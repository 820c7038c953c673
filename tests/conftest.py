"""The plugin that the package brings, also where the package was not installed anew since it has one."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("perseid"):
        import perseid_pytest

        config.pluginmanager.register(perseid_pytest, "perseid")
