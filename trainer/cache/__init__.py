"""Tables larger than memory: a hot tier of rows over a file, exact as if all were in memory.

directory   which rows are hot and which leave for others: segmented least recently used (pure)
cold_file   a file of places for rows: many read at once, segments written whole
cold_rows   which row is in which place; one that leaves fills a hole
traffic     written behind and read ahead while a step is computed
tables      the two under the protocol of the tables
"""
