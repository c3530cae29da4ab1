"""Pictures of a run, for a person.

`pictures` matplotlib figures · `page` one HTML file that needs no other.
"""
