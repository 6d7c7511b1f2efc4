package policy

default allow := false

violations := [sprintf("%d: %s", [i, v]) | some i, v in input.list]
#: {"input": {"list": ["b", "a"]}}
#: {"input": {"list": []}}
#: {"input": {"list": {"k": "v"}}}
#: {"input": {}}
