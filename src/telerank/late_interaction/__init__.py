"""Late interaction: vectors of tokens on disk, and the stage that re-ranks by MaxSim."""
