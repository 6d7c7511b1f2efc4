package policy

allow := true

# METADATA
# entrypoint: true
out := {x: true | some x in input.keys}

# METADATA
# entrypoint: true
lookup := [object.get({1: "int", "1": "text", 1.5: "half", true: "bool", null: "null"}, k, "none") | some k in input.keys]
#: {"input": {"keys": [1]}}
#: {"input": {"keys": ["1"]}}
#: {"input": {"keys": [1.5, true, null]}}
#: {"input": {"keys": [[1], {"a": 1}]}}
#: {"input": {"keys": [2]}}
