package policy

allow := true

# METADATA
# entrypoint: true
out := [a, b, c] if {
	a := input.x
	b := a + 1
	[c, _] := [b, a]
}

# METADATA
# entrypoint: true
shadow := [x | x := input.list[_]] if input.list

# METADATA
# entrypoint: true
same := y if {
	y = input.x
	y = input.y
}
#: {"input": {"x": 1, "y": 1, "list": [1]}}
#: {"input": {"x": 1, "y": 2, "list": []}}
#: {"input": {"x": "a", "y": "a"}}
#: {"input": {}}
