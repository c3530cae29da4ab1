"""Tables larger than memory: a hot tier of rows over a file, exact as if all were in memory.

directory   which rows are hot and which leave for others: least recently used (pure)
cold_file   the file of all rows, mapped into memory
tables      the two under the protocol of the tables
"""
