package policy

default allow := false

allow if {
	some i
	input.list[i] == "stop"
	i > data.params.after
}

# METADATA
# entrypoint: true
first_index := i if {
	some i, v in input.list
	v == "stop"
	not earlier(i)
}

earlier(i) if {
	some j, v in input.list
	j < i
	v == "stop"
}
#: {"input": {"list": ["a", "stop", "stop"]}, "params": {"after": 1}}
#: {"input": {"list": ["stop"]}, "params": {"after": 0}}
#: {"input": {"list": []}, "params": {"after": 0}}
#: {"input": {"list": ["stop", "b", "stop"]}, "params": {"after": -1}}
