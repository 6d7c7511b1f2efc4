package policy

allow := true

# METADATA
# entrypoint: true
paths contains concat(".", [sprintf("%v", [p]) | some p in path]) if {
	some path
	walk(input, [path, value])
	value == "needle"
}

# METADATA
# entrypoint: true
sizes := sum([1 | walk(input, [_, _])])
#: {"input": {"a": {"b": ["x", "needle"]}}}
#: {"input": {"needle": "needle", "c": [["needle"]]}}
#: {"input": {}}
#: {"input": []}
#: {"input": "needle"}
#: {"input": null}
