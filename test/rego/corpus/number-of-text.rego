package policy

allow := true

# METADATA
# entrypoint: true
out := to_number(input.t)
#: {"input": {"t": ".5"}}
#: {"input": {"t": "+5"}}
#: {"input": {"t": "5."}}
#: {"input": {"t": " 5"}}
#: {"input": {"t": "0x1p-2"}}
#: {"input": {"t": "1_000"}}
#: {"input": {"t": "Inf"}}
#: {"input": {"t": "NaN"}}
