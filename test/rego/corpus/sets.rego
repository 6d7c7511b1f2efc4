package policy

allow := true

a contains x if some x in input.a

b contains x if some x in input.b

# METADATA
# entrypoint: true
out := {
	"and": a & b,
	"or": a | b,
	"minus": a - b,
	"union": union({a, b, {"z"}}),
	"intersection": intersection({a, b}),
	"size": count(a | b),
	"equal": a == b,
	"nested": {a, b},
}
#: {"input": {"a": [1, 2, 2], "b": [2, 3]}}
#: {"input": {"a": [], "b": []}}
#: {"input": {"a": ["x", ["y"], {"k": 1}], "b": [["y"]]}}
#: {"input": {"a": [1, 1.0], "b": [1]}}
#: {"input": {"a": [true, null, 0, ""], "b": [false]}}
