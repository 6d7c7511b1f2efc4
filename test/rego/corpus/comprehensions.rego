package policy

allow := true

# METADATA
# entrypoint: true
squares := [y | some x in input.numbers; y := x * x]

# METADATA
# entrypoint: true
evens := {x | some x in input.numbers; x % 2 == 0}

# METADATA
# entrypoint: true
index := {sprintf("k%d", [x]): i | some i, x in input.numbers}

# METADATA
# entrypoint: true
nested := [[a, b] | some a in input.numbers; some b in input.numbers; a < b]

# METADATA
# entrypoint: true
grouped := {k: vs |
	some k in {m | some n in input.numbers; m := n % 3}
	vs := [n | some n in input.numbers; n % 3 == k]
}
#: {"input": {"numbers": [1, 2, 3]}}
#: {"input": {"numbers": []}}
#: {"input": {"numbers": [5, 4, 5]}}
#: {"input": {"numbers": [1.5, 2]}}
#: {"input": {"numbers": [-1, -2, 0]}}
#: {"input": {}}
