"""What a checker says while a command is carried out ends the run: nobody takes it for trouble of storage."""

from __future__ import annotations

import pytest
from worlds import TestWorld, calm

from perseid.errors import PropertyBroken
from perseid.simulation.checkers import broken
from perseid.simulation.graphs import chain


@pytest.mark.parametrize("check", ["appended", "checkpoint_committed", "trimmed", "stream_trimmed", "source_trimmed"])
def test_a_property_that_is_broken_while_something_is_written_ends_the_run(check: str) -> None:
    world = TestWorld(calm(chain(2, preservation="durable"), epochs=60))
    setattr(world.witness, check, lambda *_: broken("test", f"{check} was looked at"))
    with pytest.raises(PropertyBroken, match=f"test: {check} was looked at"):
        world.to_the_end()
