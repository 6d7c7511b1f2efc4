package policy

allow if a1

allow if a2

allow if a3(1)

allow if a4(2)
