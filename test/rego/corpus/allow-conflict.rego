package policy

allow if input.a

allow := false if input.b
#: {"input": {"a": true}}
#: {"input": {"b": true}}
#: {"input": {"a": true, "b": true}}
#: {"input": {}}
