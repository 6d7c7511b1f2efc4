package policy

allow := true

# METADATA
# entrypoint: true
reachable := graph.reachable(input.graph, input.start)

# METADATA
# entrypoint: true
paths := graph.reachable_paths(input.graph, input.start)
#: {"input": {"graph": {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, "start": ["a"]}}
#: {"input": {"graph": {"a": ["b"], "b": ["a"]}, "start": ["a"]}}
#: {"input": {"graph": {}, "start": ["a"]}}
#: {"input": {"graph": {"a": ["x"]}, "start": ["a", "b"]}}
#: {"input": {"graph": {"a": "b"}, "start": "a"}}
