package policy

allow := true

f(x) := "small" if x < 10

f(x) := "even" if x % 2 == 0

# METADATA
# entrypoint: true
out := f(input.x)
#: {"input": {"x": 3}}
#: {"input": {"x": 12}}
#: {"input": {"x": 4}}
#: {"input": {"x": 11}}
