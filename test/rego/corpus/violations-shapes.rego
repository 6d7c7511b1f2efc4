package policy

allow := false

violations := input.violations
#: {"input": {"violations": ["b", "a"]}}
#: {"input": {"violations": "text"}}
#: {"input": {"violations": {"a": 1}}}
#: {"input": {"violations": 3}}
#: {"input": {}}
