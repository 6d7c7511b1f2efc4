package policy

default allow := false

allow if input.ok == true

violations contains "not ok" if not input.ok
#: {"input": {"ok": true}}
#: {"input": {"ok": false}}
#: {"input": {"ok": "true"}}
#: {"input": {}}
#: {"input": []}
#: {"input": null}
#: {"input": "text"}
#: {"input": 3}
