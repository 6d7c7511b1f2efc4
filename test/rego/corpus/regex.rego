package policy

allow := true

# METADATA
# entrypoint: true
match := regex.match(input.p, input.s)

# METADATA
# entrypoint: true
valid := regex.is_valid(input.p)

# METADATA
# entrypoint: true
split_by := regex.split(input.p, input.s)

# METADATA
# entrypoint: true
find := regex.find_n(input.p, input.s, -1)

# METADATA
# entrypoint: true
groups := regex.find_all_string_submatch_n(input.p, input.s, -1)

# METADATA
# entrypoint: true
replaced := regex.replace(input.s, input.p, "<$1>")

# METADATA
# entrypoint: true
template := regex.template_match("urn:{[a-z]+}:x", input.s, "{", "}")

# METADATA
# entrypoint: true
globs := regex.globs_match("a.*", input.p)
#: {"input": {"p": "(a)(b)?", "s": "ab a ac"}}
#: {"input": {"p": "^v[0-9]+$", "s": "v12"}}
#: {"input": {"p": "[", "s": "x"}}
#: {"input": {"p": "(?i)HELLO", "s": "say hello"}}
#: {"input": {"p": "\\p{L}+", "s": "日本 x"}}
#: {"input": {"p": "", "s": "ab"}}
#: {"input": {"p": "(?P<y>\\d{4})-(\\d\\d)", "s": "2026-11-26 2025-01-02"}}
#: {"input": {"p": "a(?=b)", "s": "ab"}}
#: {"input": {"p": "[a-z]+", "s": "urn:abc:x"}}
