package policy

allow := input.value
#: {"input": {"value": true}}
#: {"input": {"value": false}}
#: {"input": {"value": 1}}
#: {"input": {"value": "true"}}
#: {"input": {"value": null}}
#: {"input": {"value": [true]}}
#: {"input": {"value": {}}}
