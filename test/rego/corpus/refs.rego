package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"last": input.list[count(input.list) - 1],
	"computed": input[input.key],
	"string_key": input["odd key"].x,
	"all": [x | x := input.list[_]],
	"missing": object.get(input, ["a", "b", "c"], "default"),
}

# METADATA
# entrypoint: true
vars contains k if input.map[k].on == true

# METADATA
# entrypoint: true
matrix := [v | v := input.matrix[i][j]; i == j]
#: {"input": {"list": [1, 2, 3], "key": "list", "odd key": {"x": 1}, "map": {"a": {"on": true}, "b": {"on": false}}, "matrix": [[1, 2], [3, 4]]}}
#: {"input": {"list": ["x"], "key": "key", "odd key": {"x": null}, "map": {}, "matrix": []}}
#: {"input": {"list": [], "key": "no"}}
#: {"input": {"list": [0], "key": "a", "a": {"b": {"c": 5}}, "odd key": {"x": false}, "map": [{"on": true}], "matrix": {"0": 1}}}
