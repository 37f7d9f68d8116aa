"""Words as people write them: those of an index, corrections of misspelt ones, suggestions while typing."""
