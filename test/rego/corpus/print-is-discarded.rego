package policy

default allow := false

allow if {
	print("looking at", input)
	input.ok
}
#: {"input": {"ok": true}}
#: {"input": {}}
