package policy

allow := false

violations contains input.members[_]
#: {"input": {"members": ["z", "a", 1, 2.5, true, null, {"b": 1, "a": [1, 2]}, [3, "x"]]}}
#: {"input": {"members": [{"q": "<&>"}]}}
#: {"input": {"members": ["é", " ", "\"quoted\"", "a\nb"]}}
#: {"input": {"members": []}}
