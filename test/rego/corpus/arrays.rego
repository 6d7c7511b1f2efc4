package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"concat": array.concat(input.a, input.b),
	"slice": array.slice(input.a, 1, 3),
	"reverse": array.reverse(input.a),
	"flatten": array.flatten(input.a),
	"numbers": numbers.range(1, count(input.a)),
	"steps": numbers.range_step(0, 10, 3),
}
#: {"input": {"a": [1, 2, 3, 4], "b": ["x"]}}
#: {"input": {"a": [], "b": []}}
#: {"input": {"a": [[1, [2]], 3], "b": [null]}}
#: {"input": {"a": {}, "b": []}}
