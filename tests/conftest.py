"""How workers share the tests. The process that only hands tests out to them imports no models, which takes seconds."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> workers.Rooms:
    return workers.Rooms(config, log)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") == "no":  # this process runs tests
        gc.disable()  # until all are collected
        # An example may take its time: the usual fifth of a second is a matter of what else this machine does.
        settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("patient")
        for fixtures in ("models", "pages", "processes"):
            config.pluginmanager.register(import_module(f"tests.support.{fixtures}"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    workers.longest_first(items)


def pytest_collection_finish() -> None:
    """What was imported is here to stay: no collection of garbage needs to look through it again."""
    gc.collect()
    gc.freeze()
    gc.enable()
