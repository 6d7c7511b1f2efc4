package policy

allow if no.such_function(input)
