package policy

allow if inner with input as {"x": 5}

inner if input.x == 5

# METADATA
# entrypoint: true
replaced := [a, b, c] if {
	a := outer with input.x as 1
	b := outer with data.params as {"y": 7}
	c := count(input.list) with count as mock_count
}

outer := [object.get(input, "x", "none"), object.get(data.params, "y", "none")]

mock_count(_) := 42
#: {"input": {"x": 3, "list": []}, "params": {"y": 2}}
#: {"input": {"list": [1]}, "params": {}}
#: {"input": {}, "params": {}}
