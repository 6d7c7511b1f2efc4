package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"count": count(input.x),
	"max": max(input.x),
	"min": min(input.x),
	"sort": sort(input.x),
}

# METADATA
# entrypoint: true
sum_of := sum(input.x)

# METADATA
# entrypoint: true
product_of := product(input.x)

# METADATA
# entrypoint: true
flags := [all_true, some_true] if {
	all_true := count([1 | some v in input.x; v != true]) == 0
	some_true := true in input.x
}
#: {"input": {"x": [3, 1, 2]}}
#: {"input": {"x": []}}
#: {"input": {"x": ["b", "a"]}}
#: {"input": {"x": [1, "a", null, true, [1], {"a": 1}]}}
#: {"input": {"x": "text"}}
#: {"input": {"x": [true, true]}}
#: {"input": {"x": {"a": 1, "b": 2}}}
#: {"input": {"x": [0.1, 0.2, 0.3]}}
