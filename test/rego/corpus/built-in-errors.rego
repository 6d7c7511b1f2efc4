package policy

default allow := false

allow if to_number(input.n) > 1

# METADATA
# entrypoint: true
divided := 10 / input.d

# METADATA
# entrypoint: true
parsed := json.unmarshal(input.n)

# METADATA
# entrypoint: true
guarded := x if {
	x := to_number(input.n)
} else := "not a number"

# METADATA
# entrypoint: true
negated if not to_number(input.n)
#: {"input": {"n": "2", "d": 2}}
#: {"input": {"n": "x", "d": 0}}
#: {"input": {"n": "0", "d": 3}}
#: {"input": {"d": 1}}
