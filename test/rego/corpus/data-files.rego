package policy

default allow := false

allow if input.team in data.teams.trusted

# METADATA
# entrypoint: true
limit := data.teams.limits[input.team]

# METADATA
# entrypoint: true
everything := data.teams

# METADATA
# entrypoint: true
big := data.big

#: file data.json
{"teams": {"trusted": ["red", "blue"], "limits": {"red": 1.50, "blue": 2}}, "big": 12345678901234567890123}
#: {"input": {"team": "red"}}
#: {"input": {"team": "green"}}
#: {"input": {}}
