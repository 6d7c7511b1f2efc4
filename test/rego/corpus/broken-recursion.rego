package policy

allow if a

a if b

b if a
