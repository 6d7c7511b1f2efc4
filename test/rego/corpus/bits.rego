package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"and": bits.and(input.a, input.b),
	"or": bits.or(input.a, input.b),
	"xor": bits.xor(input.a, input.b),
	"neg": bits.negate(input.a),
	"left": bits.lsh(input.a, 3),
	"right": bits.rsh(input.a, 1),
}
#: {"input": {"a": 12, "b": 10}}
#: {"input": {"a": 0, "b": 0}}
#: {"input": {"a": -5, "b": 3}}
#: {"input": {"a": 12345678901234567890, "b": 1}}
#: {"input": {"a": 1.5, "b": 1}}
