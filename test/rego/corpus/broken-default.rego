package policy

default allow := input.x
