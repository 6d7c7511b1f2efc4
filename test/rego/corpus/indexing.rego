package policy

default allow := false

allow if {
	input.method == "GET"
	input.path == ["a", id]
	input.user == id
}

allow if {
	input.method == "POST"
	input.roles[_] == "admin"
}

allow if glob.match("x:*", [":"], input.path)

id := input.id
#: {"input": {"method": "GET", "path": ["a", "u"], "user": "u", "id": "u"}}
#: {"input": {"method": "GET", "path": ["a", "u"], "user": "v", "id": "u"}}
#: {"input": {"method": "POST", "roles": ["x", "admin"]}}
#: {"input": {"method": "POST", "roles": []}}
#: {"input": {"path": "x:y"}}
#: {"input": {"path": "x:y:z"}}
#: {"input": {}}
