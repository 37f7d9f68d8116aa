"""telerank's stages in the programs of others."""
