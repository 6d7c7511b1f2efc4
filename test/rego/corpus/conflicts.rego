package policy

default allow := false

allow if level == "high"

level := "high" if input.score > 5

level := "low" if input.score < 10
#: {"input": {"score": 1}}
#: {"input": {"score": 12}}
#: {"input": {"score": 7}}
#: {"input": {}}
