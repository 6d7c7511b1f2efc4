package policy

allow := true

# METADATA
# entrypoint: true
parsed := yaml.unmarshal(input.text)

# METADATA
# entrypoint: true
is_yaml := yaml.is_valid(input.text)

# METADATA
# entrypoint: true
text := yaml.marshal(input.value)
#: {"input": {"text": "a: 1\nb: [x, y]\n", "value": {"a": [1, {"b": null}]}}}
#: {"input": {"text": "a: &x {k: v}\nb: *x\n", "value": "yes"}}
#: {"input": {"text": "\t- bad", "value": []}}
#: {"input": {"text": "on: yes\nt: 2026-11-26\nn: 0o10\n", "value": {"on": true, "1": "1"}}}
#: {"input": {"text": "--- a\n--- b\n", "value": 1.5}}
#: {"input": {"text": "| \n  text", "value": "multi\nline"}}
