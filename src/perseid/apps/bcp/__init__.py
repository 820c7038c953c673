"""Bus capacity prediction: people counted in successive pictures, crowding predicted (M8)."""

from perseid.apps.bcp.graph import build, epoch_rows
from perseid.apps.bcp.report import report

__all__ = ["build", "epoch_rows", "report"]
