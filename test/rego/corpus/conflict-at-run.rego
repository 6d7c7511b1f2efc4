package policy

allow := true

# METADATA
# entrypoint: true
out[k] := v if some [k, v] in input.pairs
#: {"input": {"pairs": [["a", 1], ["b", 2]]}}
#: {"input": {"pairs": [["a", 1], ["a", 1]]}}
#: {"input": {"pairs": [["a", 1], ["a", 2]]}}
#: {"input": {"pairs": []}}
