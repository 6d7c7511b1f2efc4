package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"in_list": 2 in input.list,
	"in_object": "v" in input.object,
	"in_set": "a" in {x | some x in input.list},
	"in_text": "a" in ["abc"],
}

# METADATA
# entrypoint: true
pair if "k", "v" in input.object

# METADATA
# entrypoint: true
index if 0, 1 in input.list
#: {"input": {"list": [1, 2], "object": {"k": "v"}}}
#: {"input": {"list": ["a"], "object": {}}}
#: {"input": {"list": [], "object": {"v": "k"}}}
#: {"input": {"list": [1, [2]], "object": {"k": 2}}}
