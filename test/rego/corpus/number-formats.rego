package policy

allow := true

# METADATA
# entrypoint: true
same := input.n

# METADATA
# entrypoint: true
text := sprintf("%v %d %s", [input.n, input.n, input.n])

# METADATA
# entrypoint: true
parsed := to_number(input.t)

# METADATA
# entrypoint: true
formatted := [format_int(input.n, 2), format_int(input.n, 16)]

# METADATA
# entrypoint: true
json_text := json.marshal(input)
#: {"input": {"n": 255, "t": "12.50"}}
#: {"input": {"n": 1.0, "t": "1e2"}}
#: {"input": {"n": 0.10, "t": "007"}}
#: {"input": {"n": 10000000000000000000000, "t": "-1"}}
#: {"input": {"n": 1e21, "t": "x"}}
#: {"input": {"n": 1.10e1, "t": ""}}
#: {"input": {"n": -255.9, "t": "0x10"}}
