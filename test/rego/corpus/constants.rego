package policy

allow if limits.max > input.n

limits := {"max": 10, "list": [1, 2, 3], "set": {"a", "b"}}

# METADATA
# entrypoint: true
all_of_it := limits

# METADATA
# entrypoint: true
null_value := null

# METADATA
# entrypoint: true
truth := true

# METADATA
# entrypoint: true
lie := false

# METADATA
# entrypoint: true
empty := [{}, [], set(), ""]
#: {"input": {"n": 1}}
#: {"input": {"n": 10}}
#: {"input": {"n": "a"}}
