"""What `recd advise` does around the pure advisor (streams/advisor).

source    a file or a topic as polls of records: start here
sampling  records through the sessionizer's own core to a sample
table     advice for a person
lines     advice for a program
rewrite   the [[groups]] of a configuration file, replaced
"""
