package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"dice": [rand.intn(sprintf("die %d", [i]), 6) | some i in numbers.range(1, input.n)],
	"same": rand.intn("x", 1000) == rand.intn("x", 1000),
	"id": uuid.rfc4122("one"),
	"same_id": uuid.rfc4122("one") == uuid.rfc4122("one"),
	"parsed": uuid.parse("00000000-0000-4000-8000-000000000000"),
}
#: {"input": {"n": 1}}
#: {"input": {"n": 5}}
#: {"input": {"n": 20}}
