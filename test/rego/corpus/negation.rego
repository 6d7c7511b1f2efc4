package policy

default allow := false

allow if {
	not blocked
	not input.user in {"eve", "mallory"}
	not any_bad
}

blocked if input.blocked

any_bad if {
	some x in input.list
	not x.ok
}
#: {"input": {"user": "alice", "list": []}}
#: {"input": {"user": "eve", "list": []}}
#: {"input": {"user": "bob", "list": [{"ok": false}]}}
#: {"input": {"user": "bob", "list": [{"ok": true}]}}
#: {"input": {"user": "bob", "blocked": true}}
#: {"input": {"user": "bob", "list": [{}]}}
#: {"input": {}}
