package policy

allow := true

# METADATA
# entrypoint: true
out := [to_number(v) | some v in input.values]
#: {"input": {"values": ["1", 2, true, false, null]}}
#: {"input": {"values": ["x"]}}
#: {"input": {"values": ["1e3", "-2.50", ".5"]}}
#: {"input": {"values": [[]]}}
