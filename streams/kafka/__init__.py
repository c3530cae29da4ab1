"""The Kafka side of the streams package.

client        configuration, security, builders of producers, consumers and admin clients
topics        what each topic must look like, creation and checks
dead_letter   records that can never be used, with reason and position
ingest        files into the interactions topic
lag           fetch, held and commit lag
"""
