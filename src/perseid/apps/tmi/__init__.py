"""Transportation mode inference: k-means over pools of phone positions (M8)."""

from perseid.apps.tmi.graph import build, epoch_rows
from perseid.apps.tmi.report import report

__all__ = ["build", "epoch_rows", "report"]
