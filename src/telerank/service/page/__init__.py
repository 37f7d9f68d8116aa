"""The page on which people search: what it shows, its texts, its templates."""
