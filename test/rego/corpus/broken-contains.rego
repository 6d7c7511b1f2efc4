package policy

allow := true

allow contains "x"
