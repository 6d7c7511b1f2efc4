package policy

allow if count(5) == "a"

allow if upper("a", "b")
