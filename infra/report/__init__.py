"""Pictures of a run, for a person.

`pictures` the figure of a demo · `advice` that of advice · `page` one HTML file that needs no other.
"""
