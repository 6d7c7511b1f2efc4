package policy

allow := true

double(x) := x * 2

kind(x) := "number" if is_number(x)

kind(x) := "string" if is_string(x)

else := "none" if x == null

area({"w": w, "h": h}) := w * h

fib(0) := 0

fib(1) := 1

default level(_) := "none"

level(x) := "high" if x > 10

# METADATA
# entrypoint: true
out := {
	"double": [double(x) | some x in input.n],
	"kinds": [kind(x) | some x in input.mixed],
	"area": area(input.box),
	"level": [level(x) | some x in input.n],
	"fib": [fib(x) | some x in input.n],
}
#: {"input": {"n": [0, 1, 20], "mixed": [1, "a"], "box": {"w": 2, "h": 3.5}}}
#: {"input": {"n": [1], "mixed": [null, "b", true], "box": {"w": 2, "h": 2}}}
#: {"input": {"n": [2], "mixed": [], "box": {"w": 1}}}
#: {"input": {"n": [], "mixed": [[]], "box": {"w": 0, "h": 1, "d": 1}}}
