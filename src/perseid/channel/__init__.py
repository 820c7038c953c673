"""Connections, messages and rows between the driver, its hosts and their tasks."""
