"""Whole mini-batches for other tools, lossless both ways: all columns, all groups in their own form, all lineage.

arrow     one line of an Arrow record batch, without copying
parquet   files of many mini-batches; the only module here that reads and writes files
arrays    a plain dict of named NumPy arrays
records   a dict a sample, for people

Groups alone, without samples around them, are `streams.ikjt.arrow`, `.arrays`, `.records`, `.tensors`, `.torchrec`.
Nothing is imported here: Arrow takes its time to load, and each tool needs one of these only.
"""
