"""SignalGuru: traffic lights found in pictures of many phones, the next change predicted by an SVM (M8)."""

from perseid.apps.signalguru.graph import build, epoch_rows
from perseid.apps.signalguru.report import report

__all__ = ["build", "epoch_rows", "report"]
