package policy

default allow := false

allow if summary.total > 0

# METADATA
# entrypoint: true
summary := {"total": count(input.items), "names": names}

# METADATA
# entrypoint: true
names contains item.name if some item in input.items

# METADATA
# entrypoint: true
by_name[item.name] := item.size if some item in input.items

# METADATA
# entrypoint: true
never if input.never

# METADATA
# entrypoint: true
first := input.items[0].name
#: {"input": {"items": [{"name": "b", "size": 1}, {"name": "a", "size": 2}]}}
#: {"input": {"items": []}}
#: {"input": {"items": [{"name": "a", "size": 1}, {"name": "a", "size": 2}]}}
#: {"input": {"items": [{"name": "x"}], "never": true}}
