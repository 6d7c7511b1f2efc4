package policy

allow if input.ok
#: {"input": {"ok": true}}
#: {"input": {"ok": false}}
#: {"input": {}}
