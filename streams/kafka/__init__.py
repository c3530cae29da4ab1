"""The Kafka side of the streams package.

client        configuration, security, builders of producers, consumers and admin clients
reach         whether Kafka answers and lets us in, told with the settings that may be wrong
topics        what each topic must look like, creation and checks
headers       names of the record headers that recd writes
end_record    the record that ends an epoch of a mini-batch partition
dead_letter   records that can never be used, with reason and position
letters       dead letters read back
identity      which topic a name stands for now
ingest        files into the interactions topic: start here
end_marks     declares the end of the stream
route         any topic into an input, each user where it belongs, with route_config, route_session (the round),
              route_source (reading), route_sink (transactions), route_start (where it goes on)
outbox        sends events and dead letters and knows the fate of each
pace          how fast events are sent
placement     whether two topics place users alike
offsets       where partitions begin and end
registry      schemas of Avro and Protobuf events, and what each failure of their registry means
lag           fetch, held and commit lag
"""
