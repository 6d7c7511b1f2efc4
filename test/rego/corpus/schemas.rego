package policy

allow := true

# METADATA
# entrypoint: true
verified := json.verify_schema(input.schema)

# METADATA
# entrypoint: true
matched := json.match_schema(input.value, input.schema)
#: {"input": {"schema": {"type": "object", "required": ["a"]}, "value": {"a": 1}}}
#: {"input": {"schema": {"type": "object", "required": ["a"]}, "value": {}}}
#: {"input": {"schema": {"type": "number", "minimum": 3}, "value": 2}}
#: {"input": {"schema": {"type": "x"}, "value": 2}}
#: {"input": {"schema": "{\"type\":\"string\"}", "value": "\"a\""}}
