package policy

allow if input.a.b.c.d.e.f.g[0][0][0].h == "end"

# METADATA
# entrypoint: true
depths := [count(p) | walk(input, [p, v]); is_string(v)]
#: {"input": {"a": {"b": {"c": {"d": {"e": {"f": {"g": [[[{"h": "end"}]]]}}}}}}}}
#: {"input": {"a": {"b": {"c": {"d": {"e": {"f": {"g": []}}}}}}}}
#: {"input": {"a": "x"}}
