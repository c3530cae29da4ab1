"""Small programs to read and to run: `python -m examples.NAME`."""
