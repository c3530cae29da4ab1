"""Logs in files as JSON messages, one a line.

line        what every reader yields: a message, or a line that is none
read        which reader a file needs, decompression: start here
delimited   CSV, TSV and RecBole's typed TSV
json_lines  one JSON object a line
parquet     Parquet
in_order    messages of any number of files in the order of their times, in bounded memory
"""
