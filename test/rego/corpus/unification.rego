package policy

allow := true

# METADATA
# entrypoint: true
out contains [a, rest] if [a, rest] = input.pair

# METADATA
# entrypoint: true
deep := x if {"a": {"b": [_, x]}} = input.tree

# METADATA
# entrypoint: true
walked contains v if input.tree[_].b[v]

# METADATA
# entrypoint: true
same if input.pair == ["x", 1.0]

# METADATA
# entrypoint: true
swapped := [y, x] if [x, y] = input.pair
#: {"input": {"pair": ["x", 1], "tree": {"a": {"b": [1, 2]}}}}
#: {"input": {"pair": ["x", 1.0], "tree": {"a": {"b": [1]}}}}
#: {"input": {"pair": ["x"], "tree": {}}}
#: {"input": {"pair": {"0": "x"}, "tree": {"a": {"b": {"k": 1}}}}}
