"""How a run is trained: networks, objectives, the loop, the machine."""
