package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"get": object.get(input.a, "k", "default"),
	"keys": object.keys(input.a),
	"union": object.union(input.a, input.b),
	"union_n": object.union_n([input.a, input.b, {"z": 0}]),
	"remove": object.remove(input.a, ["k"]),
	"filter": object.filter(input.a, ["k", "n"]),
	"subset": object.subset(input.a, input.b),
}
#: {"input": {"a": {"k": 1, "n": {"x": 1}}, "b": {"n": {"y": 2}}}}
#: {"input": {"a": {}, "b": {}}}
#: {"input": {"a": {"k": null}, "b": {"k": null}}}
#: {"input": {"a": {"n": 1}, "b": {"n": {"y": 2}}}}
#: {"input": {"a": [1], "b": {}}}
