package policy

allow := true

# METADATA
# entrypoint: true
dots := glob.match(input.p, [], input.s)

# METADATA
# entrypoint: true
slashes := glob.match(input.p, ["/"], input.s)

# METADATA
# entrypoint: true
none := glob.match(input.p, null, input.s)

# METADATA
# entrypoint: true
quoted := glob.quote_meta(input.p)
#: {"input": {"p": "*.github.com", "s": "api.github.com"}}
#: {"input": {"p": "*.github.com", "s": "api.cdn.github.com"}}
#: {"input": {"p": "a/*/c", "s": "a/b/c"}}
#: {"input": {"p": "a/**", "s": "a/b/c"}}
#: {"input": {"p": "{x,y}?", "s": "y1"}}
#: {"input": {"p": "[a-c]*", "s": "bcd"}}
#: {"input": {"p": "[!a]", "s": "b"}}
#: {"input": {"p": "\\*", "s": "*"}}
#: {"input": {"p": "[", "s": "["}}
