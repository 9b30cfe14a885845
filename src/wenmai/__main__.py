"""``python -m wenmai`` runs the command ``wenmai``."""

from wenmai.cli.main import main

if __name__ == "__main__":
    main()
