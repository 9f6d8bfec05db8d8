"""The version, once: the build, the User-Agent and `holdfast.__version__` read it from here."""

__version__ = "0.1.0"
