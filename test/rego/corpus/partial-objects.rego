package policy

allow := true

# METADATA
# entrypoint: true
scores[name] := s if some name, s in input.scores

# METADATA
# entrypoint: true
scores["fixed"] := 1

# METADATA
# entrypoint: true
tree.a.b[k] := v if some k, v in input.scores
#: {"input": {"scores": {"x": 1}}}
#: {"input": {"scores": {"fixed": 1}}}
#: {"input": {"scores": {"fixed": 2}}}
#: {"input": {"scores": {}}}
