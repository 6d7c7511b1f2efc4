package policy

allow if x > y
