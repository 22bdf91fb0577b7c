"""Models shrunk on their way into a package: hooks for hatchling and setuptools."""
