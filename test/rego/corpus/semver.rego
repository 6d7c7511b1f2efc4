package policy

allow := true

# METADATA
# entrypoint: true
valid := semver.is_valid(input.a)

# METADATA
# entrypoint: true
order := semver.compare(input.a, input.b)
#: {"input": {"a": "1.2.3", "b": "1.10.0"}}
#: {"input": {"a": "1.0.0-alpha", "b": "1.0.0"}}
#: {"input": {"a": "1.0.0-alpha.2", "b": "1.0.0-alpha.10"}}
#: {"input": {"a": "1.0.0+x", "b": "1.0.0+y"}}
#: {"input": {"a": "v1.0.0", "b": "1.0.0"}}
#: {"input": {"a": "1.0", "b": "1.0.0"}}
#: {"input": {"a": 1, "b": "1.0.0"}}
