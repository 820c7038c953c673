"""When a signal changes next: a support vector machine over how long its phases lasted (M8).

A phase's length depends on those before it: in a coordinated cycle a long green makes the next red short, and demand
rises and falls slowly. Only the lengths are state; the machine is fitted anew from them at each change, which takes a
millisecond or two and is the same in every replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LAGS = 2
"""How many earlier phases of the same colour a forecast looks at."""
BEFORE = 2
"""And how many phases just before it, of any colour."""
LEAST = 6
"""With fewer examples the mean is the forecast."""
MOST = 80


@dataclass(slots=True)
class Forecast:
    """When the phase that began at ``at_ms`` ends."""

    at_ms: int
    colour: int
    predicted_ms: int
    usual_ms: int  # what one would say without a model: as long as on average
    model: str


@dataclass(slots=True)
class Signal:
    """What is known of one signal: the lengths of its phases, in the order they came."""

    colour: int = 0
    since_ms: int | None = None
    colours: list[int] = field(default_factory=list)
    lengths_s: list[float] = field(default_factory=list)
    open: Forecast | None = None

    def change(self, at_ms: int, colour: int) -> Forecast | None:
        """The signal changed. The forecast that was made of this moment, if any."""
        forecast, self.open = self.open, None
        if self.since_ms is not None:
            self.colours.append(self.colour)
            self.lengths_s.append((at_ms - self.since_ms) / 1000.0)
            del self.colours[: -3 * MOST], self.lengths_s[: -3 * MOST]
        self.colour, self.since_ms = colour, at_ms
        return forecast

    def predict(self) -> Forecast | None:
        """When the present phase ends; None as long as no phase of this colour was seen from beginning to end."""
        lengths, colours = np.asarray(self.lengths_s), np.asarray(self.colours)
        same = np.flatnonzero(colours == self.colour) if len(colours) else np.empty(0, np.int64)
        if not len(same) or self.since_ms is None:
            return None
        usual_s = float(lengths[same].mean())
        known = [n for n in range(LAGS, len(same)) if same[n] >= BEFORE]
        predicted_s, model = usual_s, "mean"
        if len(known) >= LEAST:
            examples = np.array([_features(lengths, same[n - LAGS : n], same[n]) for n in known])
            now = _features(lengths, same[-LAGS:], len(lengths))
            predicted_s, model = _fitted(examples, lengths[same[known]], now), "svm"
        predicted_ms, usual_ms = (self.since_ms + round(length_s * 1000) for length_s in (predicted_s, usual_s))
        self.open = Forecast(self.since_ms, self.colour, predicted_ms, usual_ms, model)
        return self.open


def _features(lengths: np.ndarray, earlier: np.ndarray, place: int) -> np.ndarray:
    """Of the phase at ``place``: how long the earlier ones of its colour were, and those just before it."""
    just = lengths[place - BEFORE : place]
    return np.concatenate([lengths[earlier], just, [just.sum()]])


def _fitted(examples: np.ndarray, lengths_s: np.ndarray, now: np.ndarray) -> float:
    from sklearn.svm import SVR  # here, so that the graph can be built without it

    middle, spread = examples.mean(axis=0), examples.std(axis=0)
    spread[spread < 0.05] = 1.0
    offset = lengths_s.mean()
    scale = max(float(lengths_s.std()), 0.05)
    machine = SVR(kernel="linear", C=1.0, epsilon=0.05, max_iter=20_000)
    machine.fit((examples - middle) / spread, (lengths_s - offset) / scale)
    guess = float(machine.predict(((now - middle) / spread)[None, :])[0]) * scale + offset
    return float(np.clip(guess, 0.5 * lengths_s.min(), 1.5 * lengths_s.max()))
