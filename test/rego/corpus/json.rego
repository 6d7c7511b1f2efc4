package policy

allow := true

# METADATA
# entrypoint: true
parsed := json.unmarshal(input.text)

# METADATA
# entrypoint: true
is_json := json.is_valid(input.text)

# METADATA
# entrypoint: true
text := json.marshal(input.value)

# METADATA
# entrypoint: true
pretty := json.marshal_with_options(input.value, {"pretty": true, "indent": "  ", "prefix": ""})

# METADATA
# entrypoint: true
filtered := json.filter(input.value, ["a/b", "c"])

# METADATA
# entrypoint: true
removed := json.remove(input.value, ["a/b"])

# METADATA
# entrypoint: true
patched := json.patch(input.value, [{"op": "add", "path": "/new", "value": 1}, {"op": "remove", "path": "/c"}])
#: {"input": {"text": "{\"a\": [1, 2.50, null]}", "value": {"a": {"b": 1, "x": 2}, "c": [1]}}}
#: {"input": {"text": "{", "value": {"c": 1}}}
#: {"input": {"text": "\"é\\u00e9\"", "value": {"a": "<&>"}}}
#: {"input": {"text": "1e5 ", "value": [1, 2]}}
#: {"input": {"text": "[1,]", "value": null}}
#: {"input": {"text": "{\"a\":1,\"a\":2}", "value": {"c": {"d": 1}, "z": 0}}}
