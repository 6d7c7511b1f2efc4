package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"sum": input.a + input.b,
	"difference": input.a - input.b,
	"product": input.a * input.b,
	"abs": abs(input.a),
	"round": round(input.a),
	"ceil": ceil(input.a),
	"floor": floor(input.a),
	"compare": [input.a < input.b, input.a == input.b, input.a >= input.b],
	"as_is": input.a,
}

# METADATA
# entrypoint: true
quotient := input.a / input.b

# METADATA
# entrypoint: true
remainder := input.a % input.b
#: {"input": {"a": 7, "b": 2}}
#: {"input": {"a": 1.5, "b": 0}}
#: {"input": {"a": 123456789012345678901234567890, "b": 1}}
#: {"input": {"a": 0.1, "b": 0.2}}
#: {"input": {"a": -7, "b": 3}}
#: {"input": {"a": 1e3, "b": 1E-2}}
#: {"input": {"a": 9007199254740993, "b": 9007199254740992}}
#: {"input": {"a": -0.0, "b": 0}}
#: {"input": {"a": 2.5, "b": 1.0}}
#: {"input": {"a": 1e400, "b": 1}}
#: {"input": {"a": 3.0, "b": 3}}
