package policy

allow if {
	input.level > 5
} else := false if {
	input.level > 0
} else := true
#: {"input": {"level": 6}}
#: {"input": {"level": 3}}
#: {"input": {"level": 0}}
#: {"input": {"level": "a"}}
#: {"input": {}}
