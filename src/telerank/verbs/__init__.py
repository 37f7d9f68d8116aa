"""What a person does with telerank, one file for each; the package exports these functions."""
