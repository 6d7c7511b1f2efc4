package policy

allow := true

# METADATA
# entrypoint: true
number := units.parse(input.u)

# METADATA
# entrypoint: true
bytes := units.parse_bytes(input.u)
#: {"input": {"u": "10"}}
#: {"input": {"u": "1Ki"}}
#: {"input": {"u": "1.5G"}}
#: {"input": {"u": "200m"}}
#: {"input": {"u": "3MiB"}}
#: {"input": {"u": "2kb"}}
#: {"input": {"u": "abc"}}
#: {"input": {"u": "10 KB"}}
#: {"input": {"u": ""}}
#: {"input": {"u": "\"5Mi\""}}
