"""``python -m telerank`` is ``telerank``."""

from telerank.cli.main import main

if __name__ == "__main__":
    main()
