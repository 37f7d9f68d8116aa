"""What a person does with answers."""
