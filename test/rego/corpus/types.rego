package policy

allow := true

# METADATA
# entrypoint: true
names := [type_name(v) | some v in input.values]

# METADATA
# entrypoint: true
checks := [[is_null(v), is_boolean(v), is_number(v), is_string(v), is_array(v), is_object(v), is_set(v)] | some v in input.values]

# METADATA
# entrypoint: true
order := sort(input.values)

# METADATA
# entrypoint: true
comparisons := [c | some a in input.values; some b in input.values; c := a < b]
#: {"input": {"values": [null, true, 1, "a", [], {}]}}
#: {"input": {"values": []}}
#: {"input": {"values": [[1, 2], [1], {"a": 1}, {"a": 0}, "b", "B"]}}
#: {"input": {"values": [0, -1, 1.0, 1, 10, 9]}}
