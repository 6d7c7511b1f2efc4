package policy

allow := true

# METADATA
# entrypoint: true
list := concat(", ", input.list)

# METADATA
# entrypoint: true
set := concat("/", {x | some x in input.list})

# METADATA
# entrypoint: true
raw := `raw \n "text"`

# METADATA
# entrypoint: true
escaped := "tab\tnewline\nunicode\u00e9"

# METADATA
# entrypoint: true
template := $"{input.name} has {count(input.list)} items"
#: {"input": {"list": ["b", "a"], "name": "x"}}
#: {"input": {"list": [], "name": null}}
#: {"input": {"list": [1], "name": {"a": 1}}}
#: {"input": {"list": ["a"]}}
